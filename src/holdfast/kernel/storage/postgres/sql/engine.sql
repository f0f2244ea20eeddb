-- name: engine_lock_head
-- Locks the head from the first statement on: one writer at a time among all clients.
select (select secret from node_key), {engine_identity.timeline} from journal_head for update
-- name: engine_identity.timeline
-- Changes after a failover or a point-in-time recovery.
case when pg_is_in_recovery() then '' else substring(pg_walfile_name(pg_current_wal_lsn()) for 8) end
-- name: engine_identity
-- Cluster, database, schema and timeline of a store, and the table that notifies of changes.
select (select system_identifier from pg_control_system()), (select oid from pg_database where datname = current_database()),
  cast(:schema as regnamespace)::oid, to_regclass('journal_head')::oid, {engine_identity.timeline}, current_database()
-- name: engine_size
select cast(coalesce(sum(pg_total_relation_size(c.oid)), 0) as bigint) from pg_class c
where c.relnamespace = current_schema::regnamespace and c.relkind = 'r'
-- name: node_key_get
select secret from node_key
-- name: node_key_public
select public_key from node_key
-- name: node_key_put
insert into node_key (secret) values (:key) on conflict (only_one) do update set secret = excluded.secret
-- name: memory_text_put
insert into memory_text (rowno, words) select rowno, cast(:words as tsvector) from memory where id = :id
on conflict (rowno) do update set words = excluded.words
-- name: memory_text_drop
delete from memory_text where rowno = (select rowno from memory where id = :id)
-- name: full_text_hits
-- Ranked by a BM25-like sum over the query words: rarity, frequency, length of the memory. Sorted before memories are
-- read: they are read one by one until enough pass the filters.
select m.id, s.score, m.priority, m.confidence, m.updated_at from (select t.rowno, (cast(0 as float8)
-- name: full_text_hits.term
 + :weight_n * ts_rank('{0.5, 0.5, 0.75, 1.0}', t.words, cast(:term_n as tsquery))
-- name: full_text_hits.counted
-- The same for a word with unknown frequency, which is counted here. The count may exceed the slightly older number of
-- memories.
 + (select greatest(ln((greatest(cast(:last_n as float8), count(*)) - count(*) + 0.5) / (count(*) + 0.5)), 1e-6)
  from memory_text x where x.words @@ cast(:term_n as tsquery))
  * ts_rank('{0.5, 0.5, 0.75, 1.0}', t.words, cast(:term_n as tsquery))
-- name: full_text_hits.matches
 ) / (cast(0.59 as float8) + cast(0.41 as float8) * length(t.words) / :usual) as score
from memory_text t where t.words @@ cast(:match as tsquery) order by score desc, t.rowno) s
join memory m on m.rowno = s.rowno where true
-- name: full_text_hits.since_row
 and s.rowno >= :since_row
-- name: full_text_hits.best
order by s.score desc, s.rowno limit :limit
-- name: word_document_count
-- Document frequency of a word; filters follow.
select count(*) from memory_text t join memory m on m.rowno = t.rowno where t.words @@ cast(:match as tsquery)
-- name: word_document_counts
-- Document frequency of each stem.
select a.stem, (select count(*) from memory_text t where t.words @@ cast(a.query as tsquery))
from unnest(cast(:stems as text[]), cast(:queries as text[])) as a(stem, query)
-- name: word_statistics
-- The planner's statistics of the most common stems. The last three frequencies are bounds, not stems.
select cast(cast(most_common_elems as text) as text[]), most_common_elem_freqs, (select reltuples from pg_class
  where oid = cast('memory_text' as regclass))
from pg_stats where schemaname = current_schema and tablename = 'memory_text' and attname = 'words'
-- name: word_average_length
-- Average words per memory, over the newest ones.
select avg(length(t.words)) from (select words from memory_text order by rowno desc limit 200) t
-- name: engine_catalog
-- Definitions of everything that migrations create in a schema.
select 'column ' || c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod) || ' ' || cast(a.attnotnull as text) || ' '
  || cast(a.attidentity as text) || ' ' || coalesce((select collname from pg_collation where oid = a.attcollation), '') || ' '
  || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
where c.relnamespace = cast(:schema as regnamespace) and c.relkind in ('r', 'v')
union all
select 'constraint ' || conname, pg_get_constraintdef(oid) from pg_constraint
where connamespace = cast(:schema as regnamespace)
union all
select 'index ' || c.relname, pg_get_indexdef(c.oid) || ' ' || cast(i.indisvalid as text)
from pg_class c join pg_index i on i.indexrelid = c.oid where c.relnamespace = cast(:schema as regnamespace)
union all
select 'trigger ' || t.tgname, pg_get_triggerdef(t.oid) || ' ' || cast(t.tgenabled as text)
from pg_trigger t join pg_class c on c.oid = t.tgrelid
where c.relnamespace = cast(:schema as regnamespace) and not t.tgisinternal
union all
select 'function ' || p.proname, pg_get_functiondef(p.oid) from pg_proc p
where p.pronamespace = cast(:schema as regnamespace) and p.prokind = 'f'
-- name: engine_texts
select rowno, id, title, content, tags, bigrams from memory where state <> 'deleted' and rowno > :after order by rowno limit :limit
-- name: engine_text_differs
select a.rowno from unnest(cast(:rows as bigint[]), cast(:words as text[])) as a(rowno, words)
left join memory_text t on t.rowno = a.rowno where t.words is distinct from cast(a.words as tsvector)
-- name: engine_text_orphans
select t.rowno from memory_text t join memory m on m.rowno = t.rowno where m.state = 'deleted' order by t.rowno limit 20
-- name: engine_facts
select current_setting('server_version'), (select extversion from pg_extension where extname = 'vector'),
  case when pg_is_in_recovery() then 1 else 0 end, current_setting('fsync'),
  (select count(*) from pg_stat_activity), current_setting('max_connections'), ({engine_size}),
  case when has_database_privilege(current_database(), 'create') and not pg_is_in_recovery() then 1 else 0 end
