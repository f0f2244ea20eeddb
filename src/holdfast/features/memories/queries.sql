-- name: memory.columns
m.id, m.namespace, m.title, m.content, m.kind, m.category, m.tier, m.priority, m.confidence, m.source, m.scope,
m.agent, m.tags, m.metadata, m.citations, m.source_uri, m.source_span, m.reflection_depth, m.valid_from, m.valid_until,
m.speaker, m.occurred_at, m.thread, m.place, m.expires_at, m.state, m.reason, m.created_at, m.updated_at, m.origin,
m.version, m.extra
-- name: memory_put
-- Insert, or replace if the stored version is the expected one; no row back means a version conflict.
insert into memory (id, namespace, title, content, kind, category, tier, priority, confidence, source, scope, agent, tags,
  metadata, citations, source_uri, source_span, reflection_depth, valid_from, valid_until, speaker, occurred_at, thread,
  place, expires_at, state, reason, created_at, updated_at, origin, version, extra, field_versions, visible_as, lives_until,
  collected_at, content_hash, thread_key, position, bigrams, index_terms)
values (:id, :namespace, :title, :content, :kind, :category, :tier, :priority, :confidence, :source, :scope, :agent, :tags,
  :metadata, :citations, :source_uri, :source_span, :reflection_depth, :valid_from, :valid_until, :speaker, :occurred_at,
  :thread, :place, :expires_at, :state, :reason, :created_at, :updated_at, :origin, :version, :extra, :field_versions, :visible_as,
  :lives_until, :collected_at, :content_hash, :thread_key, :position, :bigrams, :index_terms)
on conflict (id) do update set namespace = excluded.namespace, title = excluded.title, content = excluded.content,
  kind = excluded.kind, category = excluded.category, tier = excluded.tier, priority = excluded.priority,
  confidence = excluded.confidence, scope = excluded.scope, tags = excluded.tags, metadata = excluded.metadata,
  citations = excluded.citations, source_uri = excluded.source_uri, source_span = excluded.source_span,
  reflection_depth = excluded.reflection_depth, valid_from = excluded.valid_from, valid_until = excluded.valid_until,
  speaker = excluded.speaker, occurred_at = excluded.occurred_at, thread = excluded.thread, place = excluded.place,
  expires_at = excluded.expires_at, state = excluded.state, reason = excluded.reason, updated_at = excluded.updated_at,
  version = excluded.version, extra = excluded.extra, field_versions = excluded.field_versions, visible_as = excluded.visible_as,
  lives_until = excluded.lives_until, collected_at = excluded.collected_at, content_hash = excluded.content_hash,
  thread_key = excluded.thread_key, position = excluded.position, bigrams = excluded.bigrams,
  index_terms = excluded.index_terms
where memory.version = :expected returning version
-- name: memory_without_terms
-- Memories that are not deleted, in the order of their rows.
select rowno, id, title, content, tags from memory where rowno > :after and state <> 'deleted' order by rowno limit :limit
-- name: memory_set_terms
update memory set bigrams = :bigrams, index_terms = :index_terms where id = :id
-- name: memory_last_row
select coalesce(max(rowno), 0) from memory
-- name: memory_field_versions
select field_versions from memory where id = :id
-- name: memory_local_columns
-- The columns that are local to this store, and whether a memory was ever accessed.
select m.id, m.field_versions, m.visible_as, m.lives_until, m.collected_at, m.content_hash,
  case when exists (select 1 from memory_access a where a.memory = m.id) then 1 else 0 end, m.thread_key, m.position, m.bigrams, m.index_terms
from memory m where m.id = any(:ids)
-- name: memory_tags
select memory, tag from memory_tag where memory = any(:ids)
-- name: memory_tags_clear
delete from memory_tag where memory = :memory
-- name: memory_tag_add
insert into memory_tag (memory, tag) values (:memory, :tag)
-- name: memory_by_title
-- The memory with a title, expired or not.
select {memory.columns} from memory m
where m.namespace = :namespace and m.title = :title and m.state = 'live' and m.visible_as = m.id
-- name: memory_used_until
-- When a memory was last accessed.
select max(used_at) from memory_access where memory = :id
-- name: memory_collect
-- Archive expired memories and free their titles. Local, not journalled.
update memory set visible_as = null, collected_at = :now
where id in (select id from memory where state = 'live' and collected_at is null and lives_until <= :now limit :limit)
returning id, namespace, title
-- name: memory_collect_one
update memory set visible_as = null, collected_at = :now where id = :id
-- name: memory_expired
select id, namespace, title from memory where state = 'live' and collected_at is null and lives_until <= :now limit :limit
-- name: memory_extend
-- An access extends the lifetime, never shortens it, and does not revive a collected memory: its title may be taken.
update memory set lives_until = :until
where id = :id and expires_at is not null and lives_until < :until and collected_at is null
-- name: memory_access_add
insert into memory_access (memory, origin, uses, used_at) values (:memory, :origin, :uses, :used_at)
on conflict (memory, origin) do update set uses = case when memory_access.uses + excluded.uses > 1000000 then 1000000
  else memory_access.uses + excluded.uses end,
  used_at = case when excluded.used_at > memory_access.used_at then excluded.used_at else memory_access.used_at end
-- name: memory_access_of
select memory, cast(sum(uses) as bigint), max(used_at) from memory_access where memory = any(:ids) group by memory
-- name: memory_select
select {memory.columns} from memory m where true
-- name: memory_texts
select m.id, m.title, m.content, m.source_uri from memory m where true
-- name: memory_ids
select m.id from memory m where true
-- name: memory_count
select count(*) from memory m where true
-- name: memory_count.by_tier
select m.tier, count(*) from memory m where true
-- name: memory_count.by_namespace
select m.namespace, count(*) from memory m where true
-- name: memory.per_tier
group by m.tier order by m.tier
-- name: memory.per_namespace
group by m.namespace order by count(*) desc, m.namespace
-- name: memory.live
 and m.state = 'live' and m.lives_until > :now and (m.visible_as = m.id or m.visible_as is null)
-- name: memory.archived
-- Archived or expired.
 and (m.state = 'archived' or (m.state = 'live' and m.lives_until <= :now))
-- name: memory.kept
 and m.state <> 'deleted' and (m.state <> 'live' or m.visible_as is null or m.visible_as = m.id)
-- name: memory.any
 and true
-- name: memory.expiring
 and m.lives_until <= :soon
-- name: memory.visible
-- The only place that decides who may see a private memory.
 and (m.scope <> 'private' or m.agent = :caller or exists (
  select 1 from memory_grant g where g.memory = m.id and g.agent = :caller and g.state = 'live'))
-- name: memory.writable
 and (m.scope <> 'private' or m.agent = :caller or exists (
  select 1 from memory_grant g where g.memory = m.id and g.agent = :caller and g.state = 'live'
  and g.permission <> 'read'))
-- name: memory.in_first_namespace
 and ((m.namespace = :reach_n or (m.namespace >= :reach_n || '/' and m.namespace < :reach_n || '0'))
-- name: memory.or_namespace
 or (m.namespace = :reach_n or (m.namespace >= :reach_n || '/' and m.namespace < :reach_n || '0'))
-- name: memory.end_namespaces
 )
-- name: memory.one
 and m.id = :id
-- name: memory.some
 and m.id = any(:ids)
-- name: memory.prefixed
 and m.id >= :prefix and m.id < :prefix || '~' order by m.id limit 11
-- name: memory.in
 and m.namespace = :namespace
-- name: memory.among
 and m.namespace = any(:namespaces)
-- name: memory.under
 and (m.namespace = :under or (m.namespace >= :under || '/' and m.namespace < :under || '0'))
-- name: memory.tier
 and m.tier = :tier
-- name: memory.by
 and m.agent = :agent
-- name: memory.observed_by
 and m.category is not null and m.agent = any(:agents)
-- name: memory.least_priority
 and m.priority >= :min_priority
-- name: memory.since
 and m.created_at >= :since
-- name: memory.until
 and m.created_at <= :until
-- name: memory.said_since
 and coalesce(m.occurred_at, m.created_at) >= :said_since
-- name: memory.said_until
 and coalesce(m.occurred_at, m.created_at) <= :said_until
-- name: memory.tagged
 and exists (select 1 from memory_tag x where x.memory = m.id and x.tag = :tag_n )
-- name: memory.kinds
 and m.kind = any(:kinds)
-- name: memory.lessons
-- Must equal the predicate of the partial index, or the index is not used.
 and m.kind = 'lesson'
-- name: memory.cited
 and m.citations <> '[]'
-- name: memory.from_uri
 and m.source_uri = :source_uri
-- name: memory.from_uris
 and m.source_uri >= :uri_prefix and m.source_uri < :uri_end
-- name: memory.confident
 and m.confidence >= :confidence_least and m.confidence < :confidence_below
-- name: memory.with_hash
 and m.content_hash = :content_hash
-- name: memory.seen_from
-- What an agent at a namespace sees: its own private memories and those shared by its team, unit and organisation.
 and (m.scope = 'collective' or (m.scope = 'private' and m.namespace = :at)
  or (m.scope = 'team' and (m.namespace = :team or (m.namespace >= :team || '/' and m.namespace < :team || '0')))
  or (m.scope = 'unit' and (m.namespace = :unit or (m.namespace >= :unit || '/' and m.namespace < :unit || '0')))
  or (m.scope = 'org' and (m.namespace = :org or (m.namespace >= :org || '/' and m.namespace < :org || '0'))))
-- name: memory.by_importance
 order by m.priority desc, m.updated_at desc, m.id desc limit :limit offset :skip
-- name: memory.by_archival
 order by m.updated_at desc, m.id desc limit :limit offset :skip
-- name: memory.by_place
 order by m.namespace, m.title, m.id limit :limit offset :skip
-- name: memory.by_creation
 order by m.created_at, m.id limit :limit offset :skip
-- name: memory.by_newest
 order by m.created_at desc, m.id desc limit :limit offset :skip
-- name: memory.before
-- Ids start with their creation time: newest first, starting before one.
 and m.id < :before order by m.id desc limit :limit
-- name: memory.archived_before
 and case when m.state = 'archived' then m.updated_at else m.lives_until end <= :before order by m.id
-- name: record_last_changes
-- The time of the last change to a record, by origin.
select j.origin, max(j.at) from journal j where j.record = :id and j.kind = :kind and j.at <= :most group by j.origin
-- name: record_bodies
-- The bodies of a record that the journal still contains; a purge has none.
select j.origin, j.body from journal j
where j.record = :id and j.kind = :kind and j.op <> 'purge' and (j.body is not null or j.delta is not null)
-- name: record_redact
-- Erase the content of a purged record from the journal; its id and state remain.
update journal set body = null, delta = null where record = :id and kind = :kind and origin = :origin and at <= :at
-- name: memory_has_expired
select id from memory where id = :id and lives_until <= :now
-- name: memory_access_drop
delete from memory_access where memory = :id
-- name: memory_grant_put
insert into memory_grant (id, memory, agent, permission, granted_by, created_at, updated_at, origin, version, state, field_versions)
values (:id, :memory, :agent, :permission, :granted_by, :created_at, :updated_at, :origin, :version, :state, :field_versions)
on conflict (id) do update set permission = excluded.permission, updated_at = excluded.updated_at,
  version = excluded.version, state = excluded.state, field_versions = excluded.field_versions
where memory_grant.version = :expected returning version
-- name: memory_grant_field_versions
select field_versions from memory_grant where id = :id
-- name: memory_grant.columns
g.id, g.memory, g.agent, g.permission, g.granted_by, g.created_at, g.updated_at, g.origin, g.version, g.state
-- name: memory_grant_get
select {memory_grant.columns} from memory_grant g where g.id = :id
-- name: memory_grant_all
select {memory_grant.columns} from memory_grant g where g.id > :after order by g.id limit :limit
