-- name: reflection_cycle
-- Whether a new link closes a cycle while it is valid: 1 if the cycle contains a reflection, 0 if not, null if
-- there is no cycle. Links that start later count, too, unless they have ended: two links that never overlap
-- are refused. Without dependents of the source nothing is walked.
with recursive ground (id, reflects) as (
  select m.id, cast(:reflects as bigint) from memory m where m.id = :target and exists (select 1 from link up
    where up.target = :source and up.relation in ('reflects_on', 'derives_from', 'derived_from') and up.state = 'live')
  union
  select l.target, case when l.relation = 'reflects_on' then 1 else ground.reflects end
  from ground join link l on l.source = ground.id
  where l.relation in ('reflects_on', 'derives_from', 'derived_from') and l.state = 'live' and (
    (l.valid_from < :until and (l.valid_until is null or l.valid_until > :since))
    or (:until > :now and (l.valid_until is null or l.valid_until > :now)))
)
select max(reflects) from ground where id = :source
-- name: reflection_raised
-- The memory and its dependents that must be raised if the memory gets a depth, with their new depths and namespaces. A
-- reflection is one deeper than its source, a derivation as deep.
with recursive higher (id, depth) as (
  select m.id, cast(:depth as bigint) from memory m where m.id = :id
  union
  select m.id, h.depth + case l.relation when 'reflects_on' then 1 else 0 end
  from higher h join link l on l.target = h.id join memory m on m.id = l.source
  where l.relation in ('reflects_on', 'derives_from', 'derived_from') and l.state = 'live'
    and (l.valid_until is null or l.valid_until > :now)
    and m.reflection_depth < h.depth + case l.relation when 'reflects_on' then 1 else 0 end and h.depth < :most
)
select h.id, max(h.depth), m.namespace, m.state from higher h join memory m on m.id = h.id
where m.reflection_depth < h.depth group by h.id, m.namespace, m.state order by h.id
-- name: reflection_too_low
-- Sources among some memories or links with a dependent whose depth is too low.
select l.target from link l join memory s on s.id = l.source join memory t on t.id = l.target
where l.id = any(:links) and l.relation in ('reflects_on', 'derives_from', 'derived_from') and l.state = 'live'
  and (l.valid_until is null or l.valid_until > :now)
  and s.reflection_depth < t.reflection_depth + case l.relation when 'reflects_on' then 1 else 0 end
union
select l.target from link l join memory s on s.id = l.source join memory t on t.id = l.target
where l.target = any(:grounds) and l.relation in ('reflects_on', 'derives_from', 'derived_from') and l.state = 'live'
  and (l.valid_until is null or l.valid_until > :now)
  and s.reflection_depth < t.reflection_depth + case l.relation when 'reflects_on' then 1 else 0 end
-- name: reflected_sources
-- Which of some memories are sources of a live reflection.
select distinct l.target from link l join memory m on m.id = l.source
where l.target = any(:ids) and l.relation = 'reflects_on' and l.state = 'live' and (l.valid_until is null or l.valid_until > :now)
  and m.state = 'live'
