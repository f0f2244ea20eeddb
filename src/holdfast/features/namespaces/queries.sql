-- name: policy_put
insert into policy (id, rules, agent, created_at, updated_at, origin, version, state, field_versions)
values (:id, :rules, :agent, :created_at, :updated_at, :origin, :version, :state, :field_versions)
on conflict (id) do update set rules = excluded.rules, updated_at = excluded.updated_at, version = excluded.version,
  state = excluded.state, field_versions = excluded.field_versions
where policy.version = :expected returning version
-- name: policy_field_versions
select field_versions from policy where id = :id
-- name: policy.columns
p.id, p.rules, p.agent, p.created_at, p.updated_at, p.origin, p.version, p.state
-- name: policy_get
select {policy.columns} from policy p where p.id = :id
-- name: policy_some
select {policy.columns} from policy p where p.state = 'live' and p.id = any(:ids)
-- name: policy_all
select {policy.columns} from policy p where p.id > :after order by p.id limit :limit
