-- name: link_put
insert into link (id, source, target, relation, valid_from, valid_until, agent, created_at, updated_at, origin, version,
  signature, state, field_versions)
values (:id, :source, :target, :relation, :valid_from, :valid_until, :agent, :created_at, :updated_at, :origin, :version,
  :signature, :state, :field_versions)
on conflict (id) do update set valid_from = excluded.valid_from, valid_until = excluded.valid_until,
  updated_at = excluded.updated_at, version = excluded.version, signature = excluded.signature, state = excluded.state,
  field_versions = excluded.field_versions
where link.version = :expected returning version
-- name: link_field_versions
select field_versions from link where id = :id
-- name: link.columns
l.id, l.source, l.target, l.relation, l.valid_from, l.valid_until, l.agent, l.created_at, l.updated_at, l.origin,
l.version, l.signature, l.state
-- name: link_get
select {link.columns} from link l where l.id = :id
-- name: link_all
select {link.columns} from link l where l.id > :after order by l.id limit :limit
-- name: link_count
-- Links with both ends visible: the same clauses follow twice.
select count(*) from link l where l.state = 'live' and l.source in (select m.id from memory m where true
-- name: link_count.target
 ) and l.target in (select m.id from memory m where true
-- name: link_count.end
 )
