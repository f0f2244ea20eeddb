-- name: erasure.columns
e.id, e.ordered_at, e.agent, e.heard, e.created_at, e.updated_at, e.origin, e.version, e.state
-- name: erasure_put
insert into erasure (id, ordered_at, agent, heard, created_at, updated_at, origin, version, state, field_versions)
values (:id, :ordered_at, :agent, :heard, :created_at, :updated_at, :origin, :version, :state, :field_versions)
on conflict (id) do update set ordered_at = excluded.ordered_at, agent = excluded.agent, heard = excluded.heard,
  updated_at = excluded.updated_at, version = excluded.version, state = excluded.state, field_versions = excluded.field_versions
where erasure.version = :expected returning version
-- name: erasure_field_versions
select field_versions from erasure where id = :id
-- name: erasure_get
select {erasure.columns} from erasure e where e.id = :id
-- name: erasure_all
select {erasure.columns} from erasure e where e.id > :after order by e.id limit :limit
