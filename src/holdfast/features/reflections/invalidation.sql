-- name: invalidation_put
insert into invalidation (id, invalidated, invalidating, dependent, hop, cause, status, reason, resolver, created_at,
  updated_at, origin, version, state, cells)
values (:id, :invalidated, :invalidating, :dependent, :hop, :cause, :status, :reason, :resolver, :created_at, :updated_at,
  :origin, :version, :state, :cells)
on conflict (id) do update set hop = excluded.hop, cause = excluded.cause, status = excluded.status,
  reason = excluded.reason, resolver = excluded.resolver, updated_at = excluded.updated_at, version = excluded.version,
  state = excluded.state, cells = excluded.cells
where invalidation.version = :expected returning version
-- name: invalidation_cells
select cells from invalidation where id = :id
-- name: invalidation.columns
i.id, i.invalidated, i.invalidating, i.dependent, i.hop, i.cause, i.status, i.reason, i.resolver, i.created_at,
i.updated_at, i.origin, i.version, i.state
-- name: invalidation_get
select {invalidation.columns} from invalidation i where i.id = :id
-- name: invalidation_all
select {invalidation.columns} from invalidation i where i.id > :after order by i.id limit :limit
-- name: invalidation_some
select {invalidation.columns} from invalidation i where i.id = any(:ids)
-- name: invalidation_unsettled
-- What still waits because of some memories.
select {invalidation.columns} from invalidation i
where i.invalidated = any(:ids) and i.status in ('open', 'acknowledged') and i.state = 'live' order by i.id
-- name: invalidation_ever
-- All that one memory was ever told, for its purge.
select {invalidation.columns} from invalidation i where i.dependent = :dependent order by i.id
-- name: invalidation_standing
-- What decides whether others can stand on a memory.
select id, namespace, state, valid_until, updated_at, lives_until from memory where id = any(:ids)
-- name: invalidation_reach
-- Everything that stands on some memories, through links that hold, by the shortest way. Some are left out, and what
-- stands on them alone with them. Ids alone: what the caller may see of them is asked for by itself.
with recursive reach (root, id, hop) as (
  select root.id, root.id, 0 from memory root where root.id = any(:roots)
  union
  select r.root, l.source, r.hop + 1 from reach r join link l on l.target = r.id
  where r.hop < :hops and l.relation in ('reflects_on', 'derives_from', 'derived_from') and l.state = 'live'
  and (l.valid_until is null or l.valid_until > :now) and not (l.source = any(:without))
)
select root, id, min(hop) from reach where id <> root group by root, id
-- name: invalidation_cut
-- Who stood on some memories by a link that has ended.
select target, source from link where target = any(:ids) and state = 'live' and valid_until <= :now
and relation in ('reflects_on', 'derives_from', 'derived_from')
-- name: invalidation_superseded
-- What takes the place of some memories, by a link that holds.
select target, source from link where target = any(:ids) and state = 'live' and relation = 'supersedes'
and valid_from <= :now and (valid_until is null or valid_until > :now)
-- name: invalidation_grounds
-- Why what comes to stand on some memories is stale: what they were told and still waits, what took their place, or that
-- they are away.
select i.dependent, i.invalidated, i.invalidating, i.hop, i.cause from invalidation i
where i.dependent = any(:ids) and i.status in ('open', 'acknowledged') and i.state = 'live'
union all
select l.target, l.target, l.source, 0, 'superseded' from link l
where l.target = any(:ids) and l.relation = 'supersedes' and l.state = 'live'
and l.valid_from <= :now and (l.valid_until is null or l.valid_until > :now)
union all
select away.id, away.id, away.id, 0, null from memory away
where away.id = any(:ids) and (away.state <> 'live' or away.valid_until <= :now or away.lives_until <= :now)
-- name: invalidation_ended
-- Memories that others stand on and whose own end has passed since anybody was told.
select m.id from memory m where m.valid_until <= :now and m.state = 'live'
and exists (select 1 from link l where l.target = m.id and l.state = 'live'
  and l.relation in ('reflects_on', 'derives_from', 'derived_from') and (l.valid_until is null or l.valid_until > :now))
and not exists (select 1 from invalidation i where i.invalidated = m.id and i.updated_at >= m.valid_until)
-- name: invalidation_begun
-- What superseded something by itself, at a moment that was yet to come when it was said, since anybody was told.
select l.target, l.source from link l where l.relation = 'supersedes' and l.state = 'live'
and l.valid_from > l.updated_at and l.valid_from <= :now and (l.valid_until is null or l.valid_until > :now)
and not exists (select 1 from invalidation i
  where i.invalidated = l.target and i.invalidating = l.source and i.updated_at >= l.valid_from)
-- name: invalidation_left
-- Who stood on what, by a link that ended by itself since anybody was told.
select l.target, l.source from link l where l.relation in ('reflects_on', 'derives_from', 'derived_from')
and l.state = 'live' and l.valid_until > l.updated_at and l.valid_until <= :now
and not exists (select 1 from invalidation i where i.invalidated = l.target and i.invalidating = l.target
  and i.dependent = l.source and i.updated_at >= l.valid_until)
-- name: untold_grounds
-- What some memories stand on, by the shortest way through links that hold, whose time was over by itself.
with recursive ground (root, id, hop) as (
  select root.id, root.id, 0 from memory root where root.id = any(:ids)
  union
  select ground.root, l.target, ground.hop + 1 from ground join link l on l.source = ground.id
  where ground.hop < :hops and l.relation in ('reflects_on', 'derives_from', 'derived_from') and l.state = 'live'
  and (l.valid_until is null or l.valid_until > :now)
)
select root, id, min(hop) from ground where id <> root and exists (select 1 from memory gone
  where gone.id = ground.id and gone.state = 'live' and (gone.lives_until <= :now or gone.valid_until <= :now))
group by root, id
-- name: untold_roots
-- Memories that others stand on and whose time was over by itself; of those that are collected everybody was told.
select gone.id from memory gone where gone.state = 'live' and gone.collected_at is null and gone.lives_until <= :now
and exists (select 1 from link l where l.target = gone.id and l.state = 'live'
  and l.relation in ('reflects_on', 'derives_from', 'derived_from') and (l.valid_until is null or l.valid_until > :now))
union all
select gone.id from memory gone where gone.state = 'live' and gone.valid_until <= :now
and exists (select 1 from link l where l.target = gone.id and l.state = 'live'
  and l.relation in ('reflects_on', 'derives_from', 'derived_from') and (l.valid_until is null or l.valid_until > :now))
-- name: untold_release
-- Collect some memories if their life is over, so that those who stand on them are told once.
update memory set shown = null, collected_at = :now where id = any(:ids) and collected_at is null and lives_until <= :now
-- name: invalidation_select
-- Invalidations, each with the memory that is told. Only features/reflections/invalidation_store.py joins the parts below.
select {invalidation.columns}, m.namespace, m.title, m.agent, m.scope
from invalidation i join memory m on m.id = i.dependent where i.state = 'live' and m.state <> 'deleted'
-- name: invalidation_count
select count(*) from invalidation i join memory m on m.id = i.dependent where i.state = 'live' and m.state <> 'deleted'
-- name: invalidation.with_status
 and i.status = any(:statuses)
-- name: invalidation.of_dependent
 and i.dependent = :dependent
-- name: invalidation.of_invalidated
 and i.invalidated = :invalidated
-- name: invalidation.one
 and i.id = :invalidation
-- name: invalidation.newest_first
 order by i.created_at desc, i.hop, i.id limit :limit offset :skip
-- name: stale_some
-- Those of some memories that were told that something they stand on fell: of most there is nothing more to ask.
select distinct i.dependent from invalidation i
where i.dependent = any(:ids) and i.status in ('open', 'acknowledged') and i.state = 'live'
-- name: stale_select
-- Why memories are stale: of each the nearest reason, the newest of those, and how many there are. The clauses that say
-- which memories the caller may see follow twice, for what fell and for what took its place.
select s.dependent, s.cause, s.status, s.hop, s.created_at, s.many, f.id, h.id from (
  select i.dependent, i.cause, i.status, i.hop, i.created_at, i.invalidated, i.invalidating,
    count(*) over (partition by i.dependent) as many,
    row_number() over (partition by i.dependent order by i.hop, i.created_at desc, i.id) as place
  from invalidation i where i.dependent = any(:ids) and i.status in ('open', 'acknowledged') and i.state = 'live') s
left join (select m.id from memory m where true
-- name: stale_select.heir
 ) f on f.id = s.invalidated
left join (select m.id from memory m where true
-- name: stale_select.end
 ) h on h.id = s.invalidating
where s.place = 1
