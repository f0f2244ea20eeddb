-- name: agent_put
insert into agent (id, agent_type, capabilities, created_at, updated_at, origin, version, state, field_versions)
values (:id, :agent_type, :capabilities, :created_at, :updated_at, :origin, :version, :state, :field_versions)
on conflict (id) do update set agent_type = excluded.agent_type, capabilities = excluded.capabilities,
  updated_at = excluded.updated_at, version = excluded.version, state = excluded.state, field_versions = excluded.field_versions
where agent.version = :expected returning version
-- name: agent_field_versions
select field_versions from agent where id = :id
-- name: agent.columns
a.id, a.agent_type, a.capabilities, a.created_at, a.updated_at, a.origin, a.version, a.state
-- name: agent_get
select {agent.columns} from agent a where a.id = :id
-- name: agent_all
select {agent.columns} from agent a where a.id > :after order by a.id limit :limit
-- name: notice_add
insert into notice (id, sender, recipient, title, body, priority, metadata, created_at, read_at)
values (:id, :sender, :recipient, :title, :body, :priority, :metadata, :created_at, :read_at)
on conflict (id) do nothing
-- name: notice_list
select id, sender, recipient, title, body, priority, metadata, created_at, read_at from notice where recipient = :recipient
order by created_at desc, id desc limit :limit
-- name: notice_unread
select id, sender, recipient, title, body, priority, metadata, created_at, read_at from notice
where recipient = :recipient and read_at is null order by created_at desc, id desc limit :limit
-- name: notice_all
select id, sender, recipient, title, body, priority, metadata, created_at, read_at from notice where id > :after
order by id limit :limit
-- name: notice_some
select id from notice where recipient = :recipient and id = any(:ids)
-- name: notice_read
update notice set read_at = :now where recipient = :recipient and id = any(:ids) and read_at is null returning id
-- name: key_add
insert into api_key (id, name, hash, access_right, namespaces, agent, created_at, revoked_at)
values (:id, :name, :hash, :access_right, :namespaces, :agent, :created_at, null)
-- name: key_put
-- Copies a key from another copy of the store, revocation included.
insert into api_key (id, name, hash, access_right, namespaces, agent, created_at, revoked_at)
values (:id, :name, :hash, :access_right, :namespaces, :agent, :created_at, :revoked_at)
on conflict (id) do update set revoked_at = excluded.revoked_at
-- name: key_all
select id, name, hash, access_right, namespaces, agent, created_at, revoked_at from api_key order by id
-- name: key_list
select id, name, access_right, namespaces, agent, created_at, revoked_at from api_key order by created_at, id
-- name: key_by_hash
select id, name, access_right, namespaces, agent, created_at, revoked_at from api_key where hash = :hash
-- name: key_active
select count(*) from api_key where revoked_at is null
-- name: key_count
select count(*) from api_key
-- name: key_revoke
update api_key set revoked_at = :now where id = :id and revoked_at is null returning id
