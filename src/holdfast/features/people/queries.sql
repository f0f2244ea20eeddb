-- name: principal.columns
p.id, p.name, p.stands_for, p.display, p.created_at, p.updated_at, p.origin, p.version, p.state
-- name: principal_put
insert into principal (id, name, stands_for, display, created_at, updated_at, origin, version, state, field_versions)
values (:id, :name, :stands_for, :display, :created_at, :updated_at, :origin, :version, :state, :field_versions)
on conflict (id) do update set name = excluded.name, stands_for = excluded.stands_for, display = excluded.display,
  updated_at = excluded.updated_at, version = excluded.version, state = excluded.state, field_versions = excluded.field_versions
where principal.version = :expected returning version
-- name: principal_field_versions
select field_versions from principal where id = :id
-- name: principal_get
select {principal.columns} from principal p where p.id = :id
-- name: principal_all
select {principal.columns} from principal p where p.id > :after order by p.id limit :limit
-- name: principal_live
select {principal.columns} from principal p where p.state = 'live' and p.name > :after order by p.name limit :limit
-- name: principal_target
select stands_for from principal where id = :id and state = 'live'
-- name: principal_aliases
-- Aliases of some names.
select name from principal where stands_for = any(:names) and state = 'live' order by name
-- name: principal_by_prefix
-- Aliases with a given prefix.
select name, stands_for from principal
where stands_for is not null and name >= :mark and name < :beyond and state = 'live' order by name
