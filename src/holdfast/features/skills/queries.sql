-- name: skill_put
insert into skill (id, namespace, name, current, agent, created_at, updated_at, origin, version, state, field_versions)
values (:id, :namespace, :name, :current, :agent, :created_at, :updated_at, :origin, :version, :state, :field_versions)
on conflict (id) do update set current = excluded.current, updated_at = excluded.updated_at, version = excluded.version,
  state = excluded.state, field_versions = excluded.field_versions
where skill.version = :expected returning version
-- name: skill_field_versions
select field_versions from skill where id = :id
-- name: skill.columns
s.id, s.namespace, s.name, s.current, s.agent, s.created_at, s.updated_at, s.origin, s.version, s.state
-- name: skill_get
select {skill.columns} from skill s where s.id = :id
-- name: skill_version_put
insert into skill_version (id, skill, namespace, name, description, frontmatter, composes, files, digest, signature, agent,
  created_at, updated_at, origin, version, state, field_versions)
values (:id, :skill, :namespace, :name, :description, :frontmatter, :composes, :files, :digest, :signature, :agent,
  :created_at, :updated_at, :origin, :version, :state, :field_versions)
on conflict (id) do update set description = excluded.description, frontmatter = excluded.frontmatter,
  composes = excluded.composes, files = excluded.files, updated_at = excluded.updated_at, version = excluded.version,
  state = excluded.state, field_versions = excluded.field_versions
where skill_version.version = :expected returning version
-- name: skill_version_field_versions
select field_versions from skill_version where id = :id
-- name: skill_version.columns
m.id, m.skill, m.namespace, m.name, m.description, m.frontmatter, m.composes, m.files, m.digest, m.signature, m.agent,
m.created_at, m.updated_at, m.origin, m.version, m.state
-- name: skill_version_get
select {skill_version.columns} from skill_version m where m.id = :id
-- name: skill_version_all
select {skill_version.columns} from skill_version m where m.id > :after order by m.id limit :limit
-- name: skill_with_version
-- Versions with their skill; visibility clauses follow, with the version as m.
select {skill_version.columns}, {skill.columns} from skill_version m join skill s on s.id = m.skill where true
-- name: skill.live
-- Versions of live skills, current or not, unless purged.
 and s.state = 'live' and m.state = 'live'
-- name: skill.current
 and s.state = 'live' and s.current = m.id and m.state = 'live'
-- name: skill.last
-- The current version; of a deleted skill, its last one.
 and s.current = m.id
-- name: skill.by_id
 and m.id = :id
-- name: skill.by_prefix
 and m.id >= :prefix and m.id < :prefix || '~' order by m.id limit 11
-- name: skill.by_name
 and s.name = :name order by s.namespace limit 11
-- name: skill.by_path
 and s.namespace = :namespace and s.name = :name
-- name: skill.of_skill
 and m.skill = :skill order by m.created_at desc, m.id limit :limit
-- name: skill.after
 and m.id > :after order by m.id limit :limit
-- name: skill.in_order
 order by m.name, m.namespace limit :limit
-- name: skill_piece_existing
select digest from skill_piece where piece = 0 and digest = any(:digests)
-- name: skill_piece_add
insert into skill_piece (digest, piece, content) values (:digest, :piece, :content)
on conflict (digest, piece) do nothing
-- name: skill_pieces
select content from skill_piece where digest = :digest order by piece
-- name: skill_piece_delete
delete from skill_piece where digest = any(:digests)
-- name: skill_piece_digests
select digest from skill_piece where piece = 0 and digest > :after order by digest limit :limit
-- name: skill_changes
-- Journal entries of a skill, newest first.
select {journal.columns} from journal j where j.record = :skill and j.kind = 'skill' order by j.seq desc limit :limit
-- name: skill_count
select count(*) from skill_version m join skill s on s.id = m.skill where true
-- name: skill.fault
-- Why reflection c is not valid; empty if it is. A link that was valid when written counts, even if the clock is behind.
case when c.lives_until <= :now then 'expired' when c.valid_until <= :now then 'ended' when c.valid_from > :now then 'not_yet'
when exists (
  select 1 from link l where l.target = c.id and l.relation = 'supersedes' and l.state = 'live'
  and (l.valid_from <= :now or l.valid_from <= l.updated_at)
  and (l.valid_until is null or l.valid_until > :now)) then 'superseded' when exists (
  select 1 from invalidation i where i.dependent = c.id and i.status in ('open', 'acknowledged') and i.state = 'live')
  then 'stale' else '' end
-- name: skill_reflections
-- Reflections with points for age and use (in microseconds of a year) and why they are not valid.
-- Filter clauses follow; validity is computed for the best ones only.
select c.id, c.points, {skill.fault}
from (select m.id, m.lives_until, m.valid_from, m.valid_until,
  case when m.created_at > :year_ago then m.created_at - :year_ago else 0 end + :per_use * coalesce((
    select case when sum(a.uses) > 50 then 50 else cast(sum(a.uses) as bigint) end from memory_access a where a.memory = m.id), 0)
  as points
  from memory m where m.kind = 'reflection' and m.state = 'live'
-- name: skill_reflections.best
 order by points desc, m.id limit :limit) c order by c.points desc, c.id
-- name: skill_reflection_count
select count(*) from memory m where m.kind = 'reflection' and m.state = 'live'
-- name: skill_reflections.live
 and m.kind = 'reflection' and m.state = 'live' and m.lives_until > :now
-- name: skill_reflections.in_scope
-- One index range: a namespace and everything below it.
 and m.namespace >= :under and m.namespace < :under || '0' and (m.namespace = :under or m.namespace >= :under || '/')
 and m.reflection_depth >= :floor and m.reflection_depth <= :ceiling
-- name: skill_reflection_faults
-- Validity of reflections that skills were promoted from; visibility clauses follow.
select c.id, case when c.state <> 'live' then 'gone' else {skill.fault} end from memory c join memory m on m.id = c.id
where m.kind = 'reflection'
