-- name: journal_head_get
select node, incarnation, origin, identity, public_key, seq, n, hash, recorded_at, signature from journal_head
-- name: journal_head_add
insert into journal_head (node, incarnation, origin, identity, public_key, seq, n, hash, recorded_at, signature)
values (:node, :incarnation, :origin, :identity, :public_key, :seq, :n, :hash, :recorded_at, :signature)
-- name: journal_head_renew
-- Starts a new incarnation, whose changes are numbered from 1.
update journal_head set node = :node, incarnation = :incarnation, origin = :origin, identity = :identity,
  public_key = :public_key, n = :n, signature = :signature
where node = :was
-- name: journal_head_reserve
-- Locks the head and reserves positions at its end, last in a transaction; returns the previous hash.
update journal_head set seq = seq + :count, n = n + :own where node = :node returning seq - :count, n - :own, hash,
  recorded_at, signature
-- name: journal_head_set
update journal_head set hash = :hash, recorded_at = :recorded_at, signature = :signature where node = :node
-- name: signer_add
insert into signer (origin, public_key, since) values (:origin, :public_key, :since)
-- name: signer_list
select origin, public_key, since from signer order by since, origin
-- name: journal_add
insert into journal (seq, origin, n, batch, at, recorded_at, actor, op, kind, record, about, body, delta, digest, hash)
values (:seq, :origin, :n, :batch, :at, :recorded_at, :actor, :op, :kind, :record, :about, :body, :delta, :digest, :hash)
-- name: journal.columns
j.seq, j.origin, j.n, j.batch, j.at, j.recorded_at, j.actor, j.op, j.kind, j.record, j.about, j.body, j.delta, j.digest, j.hash
-- name: journal_page
select {journal.columns} from journal j where j.seq > :after order by j.seq limit :limit
-- name: journal_one
select {journal.columns} from journal j where j.seq = :seq
-- name: journal_of
-- Ids are unique only within a kind: an agent and a namespace may share one.
select {journal.columns} from journal j where j.record = :record and j.kind = :kind and j.seq > :after
order by j.seq limit :limit
-- name: journal_last
select {journal.columns} from journal j where j.record = :record and j.kind = :kind and j.seq < :before
order by j.seq desc limit 1
-- name: journal_known
select {journal.columns} from journal j where j.record = :record and j.recorded_at <= :known_at order by j.seq
-- name: journal_feed
-- The feed of a caller: changes about a memory only while the caller can see it.
select {journal.columns} from journal j left join memory m on m.id = j.about
where j.seq > :after and (j.about is null or (true
-- name: journal_feed.end
 )) order by j.seq limit :limit
-- name: journal_last_change_of
-- Time of an agent's last change.
select recorded_at from journal where actor = :actor order by seq desc limit 1
-- name: journal_latest
-- Newest entry with content of each record, to compare with the rows. Looked up by index per entry, so that a
-- page costs a page.
select {journal.columns} from journal j where j.seq > :after and j.body is not null and not exists (
  select 1 from journal later where later.record = j.record and later.seq > j.seq and later.kind = j.kind
  and later.body is not null)
order by j.seq limit :limit
-- name: journal_orphans
-- Rows without a journal entry.
select 'memory', t.id from memory t where not exists (select 1 from journal j where j.record = t.id and j.kind = 'memory')
union all
select 'link', t.id from link t where not exists (select 1 from journal j where j.record = t.id and j.kind = 'link')
union all
select 'alias', t.id from alias t where not exists (select 1 from journal j where j.record = t.id and j.kind = 'alias')
union all
select 'memory_grant', t.id from memory_grant t
where not exists (select 1 from journal j where j.record = t.id and j.kind = 'memory_grant')
union all
select 'standard', t.id from standard t
where not exists (select 1 from journal j where j.record = t.id and j.kind = 'standard')
union all
select 'agent', t.id from agent t where not exists (select 1 from journal j where j.record = t.id and j.kind = 'agent')
union all
select 'policy', t.id from policy t where not exists (select 1 from journal j where j.record = t.id and j.kind = 'policy')
union all
select 'principal', t.id from principal t
where not exists (select 1 from journal j where j.record = t.id and j.kind = 'principal')
union all
select 'erasure', t.id from erasure t
where not exists (select 1 from journal j where j.record = t.id and j.kind = 'erasure')
union all
select 'interaction', t.id from interaction t
where not exists (select 1 from journal j where j.record = t.id and j.kind = 'interaction')
union all
select 'invalidation', t.id from invalidation t
where not exists (select 1 from journal j where j.record = t.id and j.kind = 'invalidation')
union all
select 'skill', t.id from skill t where not exists (select 1 from journal j where j.record = t.id and j.kind = 'skill')
union all
select 'skill_version', t.id from skill_version t
where not exists (select 1 from journal j where j.record = t.id and j.kind = 'skill_version')
limit :limit
