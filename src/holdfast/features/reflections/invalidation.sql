-- name: invalidation_put
insert into invalidation (id, invalidated, invalidating, dependent, hop, cause, status, reason, resolver, created_at,
  updated_at, origin, version, state, field_versions)
values (:id, :invalidated, :invalidating, :dependent, :hop, :cause, :status, :reason, :resolver, :created_at, :updated_at,
  :origin, :version, :state, :field_versions)
on conflict (id) do update set hop = excluded.hop, cause = excluded.cause, status = excluded.status,
  reason = excluded.reason, resolver = excluded.resolver, updated_at = excluded.updated_at, version = excluded.version,
  state = excluded.state, field_versions = excluded.field_versions
where invalidation.version = :expected returning version
-- name: invalidation_field_versions
select field_versions from invalidation where id = :id
-- name: invalidation.columns
i.id, i.invalidated, i.invalidating, i.dependent, i.hop, i.cause, i.status, i.reason, i.resolver, i.created_at,
i.updated_at, i.origin, i.version, i.state
-- name: invalidation_get
select {invalidation.columns} from invalidation i where i.id = :id
-- name: invalidation_all
select {invalidation.columns} from invalidation i where i.id > :after order by i.id limit :limit
-- name: invalidation_some
select {invalidation.columns} from invalidation i where i.id = any(:ids)
-- name: invalidation_pending
-- Pending notices about some sources.
select {invalidation.columns} from invalidation i
where i.invalidated = any(:ids) and i.status in ('open', 'acknowledged') and i.state = 'live' order by i.id
-- name: invalidation_ever
-- All notices of one dependent, closed ones included, for its purge.
select {invalidation.columns} from invalidation i where i.dependent = :dependent order by i.id
-- name: invalidation_source_status
-- The fields that decide whether a memory is available as a source.
select id, namespace, state, valid_until, updated_at, lives_until from memory where id = any(:ids)
-- name: invalidation_dependents
-- Dependents of some memories through valid links, by the shortest path. Excluded memories are not traversed. Returns ids
-- only: visibility is checked separately.
with recursive reach (root, id, hop) as (
  select root.id, root.id, 0 from memory root where root.id = any(:roots)
  union
  select r.root, l.source, r.hop + 1 from reach r join link l on l.target = r.id
  where r.hop < :hops and l.relation in ('reflects_on', 'derives_from', 'derived_from') and l.state = 'live'
  and (l.valid_until is null or l.valid_until > :now) and not (l.source = any(:without))
)
select root, id, min(hop) from reach where id <> root group by root, id
-- name: invalidation_ended_links
-- Former dependents of some memories: their source link has ended.
select target, source from link where target = any(:ids) and state = 'live' and valid_until <= :now
and relation in ('reflects_on', 'derives_from', 'derived_from')
-- name: invalidation_supersessions
-- Replacements of some memories by a valid supersedes link.
select target, source from link where target = any(:ids) and state = 'live' and relation = 'supersedes'
and valid_from <= :now and (valid_until is null or valid_until > :now)
-- name: invalidation_inherited
-- Reasons that a new dependent of some memories inherits: their pending notices, their replacements, or that they are
-- unavailable.
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
-- Sources whose valid_until has passed since their dependents were last notified.
select m.id from memory m where m.valid_until <= :now and m.state = 'live'
and exists (select 1 from link l where l.target = m.id and l.state = 'live'
  and l.relation in ('reflects_on', 'derives_from', 'derived_from') and (l.valid_until is null or l.valid_until > :now))
and not exists (select 1 from invalidation i where i.invalidated = m.id and i.updated_at >= m.valid_until)
-- name: invalidation_begun
-- Supersedes links with a future start that has passed since the dependents were last notified.
select l.target, l.source from link l where l.relation = 'supersedes' and l.state = 'live'
and l.valid_from > l.updated_at and l.valid_from <= :now and (l.valid_until is null or l.valid_until > :now)
and not exists (select 1 from invalidation i
  where i.invalidated = l.target and i.invalidating = l.source and i.updated_at >= l.valid_from)
-- name: invalidation_left
-- Source links whose valid_until has passed since their dependents were last notified.
select l.target, l.source from link l where l.relation in ('reflects_on', 'derives_from', 'derived_from')
and l.state = 'live' and l.valid_until > l.updated_at and l.valid_until <= :now
and not exists (select 1 from invalidation i where i.invalidated = l.target and i.invalidating = l.target
  and i.dependent = l.source and i.updated_at >= l.valid_until)
-- name: expired_sources
-- Expired direct and indirect sources of some memories, by the shortest path of valid links.
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
-- name: expired_roots
-- Expired sources that have dependents; the dependents of collected ones are notified already.
select gone.id from memory gone where gone.state = 'live' and gone.collected_at is null and gone.lives_until <= :now
and exists (select 1 from link l where l.target = gone.id and l.state = 'live'
  and l.relation in ('reflects_on', 'derives_from', 'derived_from') and (l.valid_until is null or l.valid_until > :now))
union all
select gone.id from memory gone where gone.state = 'live' and gone.valid_until <= :now
and exists (select 1 from link l where l.target = gone.id and l.state = 'live'
  and l.relation in ('reflects_on', 'derives_from', 'derived_from') and (l.valid_until is null or l.valid_until > :now))
-- name: expired_collect
-- Collect some memories if expired, so that their dependents are notified once.
update memory set visible_as = null, collected_at = :now where id = any(:ids) and collected_at is null and lives_until <= :now
-- name: invalidation_select
-- Invalidations, each with its dependent. Only features/reflections/invalidation_store.py combines the parts below.
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
-- Which of some memories have pending notices: most have none, so the rest of the work is skipped.
select distinct i.dependent from invalidation i
where i.dependent = any(:ids) and i.status in ('open', 'acknowledged') and i.state = 'live'
-- name: stale_or_derived
-- Which of some memories have pending notices or sources: no other can be stale.
{stale_some} union
select l.source from link l where l.source = any(:ids) and l.state = 'live'
and l.relation in ('reflects_on', 'derives_from', 'derived_from')
-- name: stale_select
-- Why memories are stale: for each the nearest, newest reason and the number of reasons. The visibility clauses follow
-- twice, for the source and for its replacement.
select s.dependent, s.cause, s.status, s.hop, s.created_at, s.many, f.id, h.id from (
  select i.dependent, i.cause, i.status, i.hop, i.created_at, i.invalidated, i.invalidating,
    count(*) over (partition by i.dependent) as many,
    row_number() over (partition by i.dependent order by i.hop, i.created_at desc, i.id) as place
  from invalidation i where i.dependent = any(:ids) and i.status in ('open', 'acknowledged') and i.state = 'live') s
left join (select m.id from memory m where true
-- name: stale_select.replacement
 ) f on f.id = s.invalidated
left join (select m.id from memory m where true
-- name: stale_select.end
 ) h on h.id = s.invalidating
where s.place = 1
