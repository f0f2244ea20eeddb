-- name: standard_put
insert into standard (id, memory, parent, created_at, updated_at, origin, version, state, field_versions)
values (:id, :memory, :parent, :created_at, :updated_at, :origin, :version, :state, :field_versions)
on conflict (id) do update set memory = excluded.memory, parent = excluded.parent, updated_at = excluded.updated_at,
  version = excluded.version, state = excluded.state, field_versions = excluded.field_versions
where standard.version = :expected returning version
-- name: standard_field_versions
select field_versions from standard where id = :id
-- name: standard.columns
s.id, s.memory, s.parent, s.created_at, s.updated_at, s.origin, s.version, s.state
-- name: standard_get
select {standard.columns} from standard s where s.id = :id
-- name: standard_all
select {standard.columns} from standard s where s.id > :after order by s.id limit :limit
-- name: standard_some
select {standard.columns} from standard s where s.state = 'live' and s.id = any(:ids)
