-- name: ai_memory_changes
-- Memories with their last change after a position, their representative and the last peer state; a visibility filter follows.
select j.seq, j.recorded_at, m.id, m.visible_as, m.version, t.peer, t.version
from journal j join memory m on m.id = j.record left join ai_memory_state t on t.memory = j.record
where j.seq > :after and j.kind = 'memory' and j.seq = (
  select k.seq from journal k where k.record = j.record and k.kind = 'memory' order by k.seq desc limit 1)
-- name: ai_memory_changes.page
 order by j.seq limit :limit
-- name: ai_memory_seq_before
-- The last position that is certainly before a time.
select coalesce(max(seq), 0) from journal where recorded_at < :at
-- name: ai_memory_kept_at
select recorded_at from journal where seq = :seq
-- name: ai_memory_state_get
select version, updated_at from ai_memory_state where memory = :memory
-- name: ai_memory_state_put
insert into ai_memory_state (memory, peer, version, updated_at) values (:memory, :peer, :version, :updated_at)
on conflict (memory) do update set peer = excluded.peer, version = excluded.version, updated_at = excluded.updated_at
