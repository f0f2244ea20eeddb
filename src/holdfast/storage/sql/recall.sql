-- name: candidate_select
-- What the order of hits is made from.
select m.rowno, m.id, m.speaker, m.strand, m.occurred_at, m.created_at, m.updated_at, m.valid_until,
  m.priority, m.confidence, m.parsed from memory m where true
-- name: neighbour_select
-- What a memory counts for that was only said beside another.
select m.rowno, m.id, m.speaker, m.parsed from memory m where true
-- name: parsed_newest
-- How the newest texts begin that were taken apart.
select substr(parsed, 1, 16) from memory where parsed <> '' order by rowno desc limit :limit
-- name: memory.numbered
 and m.rowno = any(:rows)
-- name: strand_around
-- Which rows come before and after some, two each way, among what was said one after another.
select m.rowno,
  (select n.rowno from memory n where n.strand = m.strand and n.state = 'live' and (n.spot, n.rowno) < (m.spot, m.rowno)
   order by n.spot desc, n.rowno desc limit 1),
  (select n.rowno from memory n where n.strand = m.strand and n.state = 'live' and (n.spot, n.rowno) < (m.spot, m.rowno)
   order by n.spot desc, n.rowno desc limit 1 offset 1),
  (select n.rowno from memory n where n.strand = m.strand and n.state = 'live' and (n.spot, n.rowno) > (m.spot, m.rowno)
   order by n.spot, n.rowno limit 1),
  (select n.rowno from memory n where n.strand = m.strand and n.state = 'live' and (n.spot, n.rowno) > (m.spot, m.rowno)
   order by n.spot, n.rowno limit 1 offset 1)
from memory m where m.rowno = any(:rows) and m.strand is not null and m.state = 'live'
-- name: speaker_select
-- Who speaks under a name, or under one that begins with it; filters follow.
select m.speaker from memory m where (m.speaker = :name or (m.speaker >= :name || ' ' and m.speaker < :name || '!'))
-- name: memory_some
-- How many there are, up to a number; filters follow.
select count(*) from (select 1 from memory m where true
-- name: memory_some.end
 limit :limit) as counted
-- name: memory_id_beside
-- The ids before and after one: what it shares with them is not enough to name it.
select (select max(a.id) from memory a where a.id < :id), (select min(b.id) from memory b where b.id > :id)
