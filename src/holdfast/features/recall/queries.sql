-- name: candidate.columns
-- The columns that ranking needs.
m.rowno, m.id, m.speaker, m.thread_key, m.occurred_at, m.created_at, m.updated_at, m.valid_until, m.priority, m.confidence,
m.content_hash, m.kind, m.index_terms
-- name: candidate_select
-- Memories by id; filters follow. The limit is never reached: it stops a planner from reading a whole namespace instead.
select {candidate.columns} from (select * from memory where id = any(:ids) limit 1000000) as m where true
-- name: candidate_select.numbered
select {candidate.columns} from (select * from memory where rowno = any(:rows) limit 1000000) as m where true
-- name: memory_by_time
-- Memories by time; filters follow.
select m.id from memory m where true
-- name: memory_by_time.forward
 order by coalesce(m.occurred_at, m.created_at), m.id limit :limit
-- name: memory_by_time.backward
 order by coalesce(m.occurred_at, m.created_at) desc, m.id desc limit :limit
-- name: neighbour_select
-- Neighbours that are not candidates.
select m.rowno, m.id, m.speaker, m.index_terms
from (select * from memory where rowno = any(:rows) limit 1000000) as m where true
-- name: index_terms_newest
-- The beginnings of the newest parsed texts.
select substr(index_terms, 1, 16) from memory where index_terms <> '' order by rowno desc limit :limit
-- name: thread.before
-- The nearest row before a memory in its thread at the same position. The one before it is this, or else the nearest at
-- an earlier position. Two queries, because SQLite does not use an index to compare two columns at once if one is the
-- row number: it would read all rows of a position.
select n.rowno from memory n where n.thread_key = m.thread_key and n.state = 'live'
  and n.position = m.position and n.rowno < m.rowno order by n.rowno desc limit 1
-- name: thread.earlier
select n.rowno from memory n where n.thread_key = m.thread_key and n.state = 'live'
  and n.position < m.position order by n.position desc, n.rowno desc limit 1
-- name: thread.after
select n.rowno from memory n where n.thread_key = m.thread_key and n.state = 'live'
  and n.position = m.position and n.rowno > m.rowno order by n.rowno limit 1
-- name: thread.later
select n.rowno from memory n where n.thread_key = m.thread_key and n.state = 'live'
  and n.position > m.position order by n.position, n.rowno limit 1
-- name: thread_neighbours
-- Two rows before and two after each row in its thread.
select m.rowno,
  coalesce(({thread.before}), ({thread.earlier})),
  coalesce(({thread.before} offset 1),
    case when ({thread.before}) is null then ({thread.earlier} offset 1) else ({thread.earlier}) end),
  coalesce(({thread.after}), ({thread.later})),
  coalesce(({thread.after} offset 1),
    case when ({thread.after}) is null then ({thread.later} offset 1) else ({thread.later}) end)
from memory m where m.rowno = any(:rows) and m.thread_key is not null and m.state = 'live'
-- name: speaker_select
-- Speakers with a name, or with one that begins with it; filters follow.
select m.speaker from (select * from memory where speaker = :name
  or (speaker >= :name || ' ' and speaker < :name || '!') limit 1000000) as m where true
-- name: memory_count_capped
-- Number of memories, up to a limit; filters follow.
select count(*) from (select 1 from memory m where true
-- name: memory_count_capped.end
 limit :limit) as counted
-- name: memory_id_neighbours
-- The ids before and after one: their common prefix is not unique.
select (select max(a.id) from memory a where a.id < :id), (select min(b.id) from memory b where b.id > :id)
-- name: candidate_links.leaving
-- Outgoing links of some memories; clauses on the memory at the other end follow.
select l.source, l.target, l.relation, l.created_at from link l join memory m on m.id = l.target
where l.state = 'live' and l.source = any(:ids)
-- name: candidate_links.entering
select l.source, l.target, l.relation, l.created_at from link l join memory m on m.id = l.source
where l.state = 'live' and l.target = any(:ids)
-- name: candidate_links.superseding
select l.source, l.target, l.relation, l.created_at from link l join memory m on m.id = l.source
where l.state = 'live' and l.target = any(:ids) and l.relation = 'supersedes'
-- name: candidate_links.now
{link.begun_or_written}{link.not_ended} order by l.valid_from, l.created_at, l.id limit :limit
-- name: candidate_links.then
{link.begun}{link.not_ended} order by l.valid_from, l.created_at, l.id limit :limit
-- name: embedding_state
-- The dimension of a model's vectors, and how far they are computed.
select (select e.dim from embedding e where e.model = :model limit 1), (select t.body from meta t where t.name = :watermark)
