-- name: link_leaving
-- Outgoing links of some memories, each with its target. Only features/graph/store.py combines the parts below; recall includes some of them.
select {link.columns}, m.id, m.title, m.namespace, m.state, m.content_hash
from link l join memory m on m.id = l.target where l.state = 'live' and l.source = any(:ids)
-- name: link_entering
-- Incoming links of some memories, each with its source.
select {link.columns}, m.id, m.title, m.namespace, m.state, m.content_hash
from link l join memory m on m.id = l.source where l.state = 'live' and l.target = any(:ids)
-- name: link_at
-- Links of one memory in both directions, each with the representative of its other end.
select {link.columns}, m.id, m.title, m.namespace, m.state, m.content_hash
from link l join memory e on e.id = case when l.source = :end then l.target else l.source end
join memory m on m.id = coalesce(e.visible_as, e.id) where l.state = 'live' and (l.source = :end or l.target = :end)
-- name: link_ancestors
-- Ancestors of a memory. The filter clauses follow twice, so that the walk does not pass through excluded memories. A cycle
-- is visited again at every depth, so steps are limited before memories are.
with recursive walk (id, depth) as (
  select m.id, cast(0 as bigint) from memory m where m.id = :start
  union
  select m.id, w.depth + 1 from walk w join link l on l.source = w.id join memory m on m.id = l.target
  where w.depth < :last and l.state = 'live'
-- name: link_ancestors.met
)
select {link.columns}, m.id, m.title, m.namespace, m.state, m.content_hash, d.depth + 1
from (select w.id, min(w.depth) as depth from (select w.id, w.depth from walk w limit :steps) w
  group by w.id order by min(w.depth) limit :most) d
join link l on l.source = d.id join memory m on m.id = l.target where l.state = 'live'
-- name: link_descendants
-- Descendants of a memory: the same in the other direction.
with recursive walk (id, depth) as (
  select m.id, cast(0 as bigint) from memory m where m.id = :start
  union
  select m.id, w.depth + 1 from walk w join link l on l.target = w.id join memory m on m.id = l.source
  where w.depth < :last and l.state = 'live'
-- name: link_descendants.met
)
select {link.columns}, m.id, m.title, m.namespace, m.state, m.content_hash, d.depth + 1
from (select w.id, min(w.depth) as depth from (select w.id, w.depth from walk w limit :steps) w
  group by w.id order by min(w.depth) limit :most) d
join link l on l.target = d.id join memory m on m.id = l.source where l.state = 'live'
-- name: link.by_depth
 order by d.depth, l.valid_from, l.created_at, l.id limit :limit
-- name: link_walk
-- Outgoing links from a memory, nearest first, and the number of steps walked. The filter clauses follow twice. Both
-- engines walk breadth first and stop at the limit. At the step limit the farthest level may be incomplete: its links are
-- left out. Links back to the start are excluded.
with recursive walk (id, depth) as (
  select m.id, cast(0 as bigint) from memory m where m.id = :start
  union
  select m.id, w.depth + 1 from walk w join link l on l.source = w.id join memory m on m.id = l.target
  where w.depth < :last and l.state = 'live' and l.target <> :start
-- name: link_walk.met
)
select {link.columns}, m.id, m.title, m.namespace, m.state, m.content_hash, d.walked
from (select w.id, min(w.depth) as depth, max(w.walked) as walked from (
    select w.id, w.depth, max(w.depth) over () as farthest, count(*) over () as walked
    from (select w.id, w.depth from walk w limit :steps) w) w
  where w.walked < :steps or w.depth < w.farthest group by w.id) d
join link l on l.source = d.id join memory m on m.id = l.target where l.state = 'live' and l.target <> :start
-- name: link_between
-- Links in both directions around two memories, nearest first; otherwise like link_walk. An end with many links is not
-- expanded if the other has few: the other is expanded twice as far. Paths do not pass through the ends themselves.
with recursive ends (id, links) as (
  select m.id, (select count(*) from (select l.id from link l where l.source = m.id or l.target = m.id limit :wide) n)
  from memory m where m.id = :source or m.id = :target
), walk (id, depth, last) as (
  select e.id, cast(0 as bigint), cast(case when e.links = :wide and o.links < :wide then :shortest
    when o.links = :wide and e.links < :wide then :longest
    when e.id = :source then :source_last else :target_last end as bigint)
  from ends e join ends o on o.id <> e.id
  union
  select m.id, w.depth + 1, w.last from walk w join link l on l.source = w.id or l.target = w.id
  join memory m on m.id = case when l.source = w.id then l.target else l.source end
  where w.depth < w.last and l.state = 'live' and m.id <> :source and m.id <> :target
-- name: link_between.met
)
select l.source, l.target, d.depth, d.last, d.walked
from (select w.id, min(w.depth) as depth, max(w.longest) as last, max(w.walked) as walked from (
    select w.id, w.depth, w.last, max(w.last) over () as longest, max(w.depth) over () as farthest,
      count(*) over () as walked
    from (select w.id, w.depth, w.last from walk w limit :steps) w) w
  where w.depth <= w.last and (w.walked < :steps or w.depth < w.farthest) group by w.id) d
join link l on l.source = d.id or l.target = d.id
join memory m on m.id = case when l.source = d.id then l.target else l.source end where l.state = 'live'
-- name: link_between.in_order
 order by d.depth, l.valid_from, l.id limit :limit
-- name: link_pairs
-- Neighbours of some memories in both directions. The filter clauses follow twice.
select l.source, l.target, m.id, l.valid_from, l.id from link l join memory m on m.id = l.target
where l.state = 'live' and l.source = any(:ids)
-- name: link_pairs.back
 union all select l.source, l.target, m.id, l.valid_from, l.id from link l join memory m on m.id = l.source
where l.state = 'live' and l.target = any(:ids)
-- name: link_pairs.in_order
 order by 4, 5, 3 limit :limit
-- name: link_among
-- Links with both ends among some memories.
select {link.columns} from link l where l.state = 'live' and l.source = any(:ids) and l.target = any(:ids)
-- name: link_within
-- Links with both ends matching the filter clauses; combined like link_count.
select {link.columns} from link l where l.state = 'live' and l.source in (select m.id from memory m where true
-- name: memory_labels
-- The node fields of a graph.
select m.id, m.title, m.namespace, m.kind from memory m where true
-- name: link.begun
 and l.valid_from <= :holds_at
-- name: link.begun_or_written
-- A link valid when written stays visible if our clock lags behind its writer's.
 and (l.valid_from <= :holds_at or l.valid_from <= l.updated_at)
-- name: link.not_ended
 and (l.valid_until is null or l.valid_until > :holds_at)
-- name: link.observed_by
 and l.agent = any(:observers)
-- name: link.with_relation
 and l.relation = any(:relations)
-- name: link.begun_since
 and l.valid_from >= :begun_since
-- name: link.begun_until
 and l.valid_from <= :begun_until
-- name: link.in_order
 order by l.valid_from, l.created_at, l.id limit :limit offset :skip
-- name: entity_by_name
-- Entities by alias. Visibility clauses come from features/memories/store.py.
select {memory.columns} from memory m
where m.kind = 'entity' and m.id in (select a.entity from alias a where a.folded = :folded and a.state = 'live')
-- name: entity.newest_first
 order by m.created_at desc, m.id desc limit :limit
-- name: standard_some
select {standard.columns} from standard s where s.state = 'live' and s.id = any(:ids)
