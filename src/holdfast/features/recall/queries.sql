-- name: candidate.columns
-- What the order of hits is made from.
m.rowno, m.id, m.speaker, m.strand, m.occurred_at, m.created_at, m.updated_at, m.valid_until, m.priority, m.confidence,
m.content_hash, m.kind, m.parsed
-- name: candidate_select
-- Some memories; filters follow. The limit, which nobody reaches, keeps a planner from reading a whole namespace instead.
select {candidate.columns} from (select * from memory where id = any(:ids) limit 1000000) as m where true
-- name: candidate_select.numbered
select {candidate.columns} from (select * from memory where rowno = any(:rows) limit 1000000) as m where true
-- name: said_select
-- What was said in a span of time, which the filters that follow name.
select m.id from memory m where true
-- name: said_select.forward
 order by coalesce(m.occurred_at, m.created_at), m.id limit :limit
-- name: said_select.backward
 order by coalesce(m.occurred_at, m.created_at) desc, m.id desc limit :limit
-- name: neighbour_select
-- What a memory counts for that was only said beside another.
select m.rowno, m.id, m.speaker, m.parsed
from (select * from memory where rowno = any(:rows) limit 1000000) as m where true
-- name: parsed_newest
-- How the newest texts begin that were taken apart.
select substr(parsed, 1, 16) from memory where parsed <> '' order by rowno desc limit :limit
-- name: strand.before
-- The nearest before a memory that is said at its spot. What comes before it is this, or else the nearest at an earlier
-- spot: in two parts, for SQLite compares no two columns at once if one is a row's number, and would read a whole strand
-- of one spot.
select n.rowno from memory n where n.strand = m.strand and n.state = 'live'
  and n.spot = m.spot and n.rowno < m.rowno order by n.rowno desc limit 1
-- name: strand.earlier
select n.rowno from memory n where n.strand = m.strand and n.state = 'live'
  and n.spot < m.spot order by n.spot desc, n.rowno desc limit 1
-- name: strand.after
select n.rowno from memory n where n.strand = m.strand and n.state = 'live'
  and n.spot = m.spot and n.rowno > m.rowno order by n.rowno limit 1
-- name: strand.later
select n.rowno from memory n where n.strand = m.strand and n.state = 'live'
  and n.spot > m.spot order by n.spot, n.rowno limit 1
-- name: strand_around
-- Which rows come before and after some, two each way, among what was said one after another.
select m.rowno,
  coalesce(({strand.before}), ({strand.earlier})),
  coalesce(({strand.before} offset 1),
    case when ({strand.before}) is null then ({strand.earlier} offset 1) else ({strand.earlier}) end),
  coalesce(({strand.after}), ({strand.later})),
  coalesce(({strand.after} offset 1),
    case when ({strand.after}) is null then ({strand.later} offset 1) else ({strand.later}) end)
from memory m where m.rowno = any(:rows) and m.strand is not null and m.state = 'live'
-- name: speaker_select
-- Who speaks under a name, or under one that begins with it; filters follow.
select m.speaker from (select * from memory where speaker = :name
  or (speaker >= :name || ' ' and speaker < :name || '!') limit 1000000) as m where true
-- name: memory_some
-- How many there are, up to a number; filters follow.
select count(*) from (select 1 from memory m where true
-- name: memory_some.end
 limit :limit) as counted
-- name: memory_id_beside
-- The ids before and after one: what it shares with them is not enough to name it.
select (select max(a.id) from memory a where a.id < :id), (select min(b.id) from memory b where b.id > :id)
