-- name: past_commit_time
select recorded_at from journal where seq = :seq
-- name: past_changed_since
-- Memories that existed at a journal position and changed after it, in a range of later entries; each once.
select j.record from journal j where j.seq > :after and j.seq <= :upto and j.kind = 'memory'
and not exists (select 1 from journal e
  where e.record = j.record and e.kind = 'memory' and e.seq > :known and e.seq < j.seq)
and exists (select 1 from journal b where b.record = j.record and b.kind = 'memory' and b.seq <= :known)
order by j.seq
-- name: past_valid_at
-- Memories in a row range whose current content was not yet valid at that time and that have an earlier version.
select m.id from memory m where m.rowno > :after and m.rowno <= :upto and m.version > 1
and coalesce(m.valid_from, m.updated_at) > :true_at
-- name: past_states
-- The last entry of each memory up to a journal position.
select {journal.columns} from journal j where j.record = any(:ids) and j.kind = 'memory' and j.seq = (
  select max(k.seq) from journal k where k.record = j.record and k.kind = 'memory' and k.seq <= :known)
-- name: past_visible_hashes
select m.id, m.content_hash from memory m where true
-- name: memory.unchanged_since
-- Memories unchanged since a journal position.
 and not exists (select 1 from journal j where j.record = m.id and j.kind = 'memory' and j.seq > :unchanged_since)
-- name: memory.valid_at
 and coalesce(m.valid_from, m.updated_at) <= :true_at and (m.valid_until is null or m.valid_until > :true_at)
