-- name: alias_put
insert into alias (id, entity, name, folded, created_at, updated_at, origin, version, state, field_versions)
values (:id, :entity, :name, :folded, :created_at, :updated_at, :origin, :version, :state, :field_versions)
on conflict (id) do update set name = excluded.name, folded = excluded.folded, updated_at = excluded.updated_at, version = excluded.version,
  state = excluded.state, field_versions = excluded.field_versions
where alias.version = :expected returning version
-- name: alias_field_versions
select field_versions from alias where id = :id
-- name: alias.columns
a.id, a.entity, a.name, a.folded, a.created_at, a.updated_at, a.origin, a.version, a.state
-- name: alias_get
select {alias.columns} from alias a where a.id = :id
-- name: alias_of
select {alias.columns} from alias a where a.entity = :entity and a.state = 'live' order by a.created_at, a.name
-- name: alias_with_deleted
-- Including deleted ones.
select {alias.columns} from alias a where a.entity = :entity order by a.id
-- name: alias_all
select {alias.columns} from alias a where a.id > :after order by a.id limit :limit
