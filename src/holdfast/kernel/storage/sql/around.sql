-- name: link_put
insert into link (id, source, target, relation, valid_from, valid_until, agent, created_at, updated_at, origin, version,
  signature, state, cells)
values (:id, :source, :target, :relation, :valid_from, :valid_until, :agent, :created_at, :updated_at, :origin, :version,
  :signature, :state, :cells)
on conflict (id) do update set valid_from = excluded.valid_from, valid_until = excluded.valid_until,
  updated_at = excluded.updated_at, version = excluded.version, signature = excluded.signature, state = excluded.state,
  cells = excluded.cells
where link.version = :expected returning version
-- name: link_cells
select cells from link where id = :id
-- name: link.columns
l.id, l.source, l.target, l.relation, l.valid_from, l.valid_until, l.agent, l.created_at, l.updated_at, l.origin,
l.version, l.signature, l.state
-- name: link_get
select {link.columns} from link l where l.id = :id
-- name: link_all
select {link.columns} from link l where l.id > :after order by l.id limit :limit
-- name: link_count
-- Links both of whose ends are to be seen: the same clauses follow twice.
select count(*) from link l where l.state = 'live' and l.source in (select m.id from memory m where true
-- name: link_count.target
 ) and l.target in (select m.id from memory m where true
-- name: link_count.end
 )
-- name: alias_put
insert into alias (id, entity, name, folded, created_at, updated_at, origin, version, state, cells)
values (:id, :entity, :name, :folded, :created_at, :updated_at, :origin, :version, :state, :cells)
on conflict (id) do update set name = excluded.name, folded = excluded.folded, updated_at = excluded.updated_at, version = excluded.version,
  state = excluded.state, cells = excluded.cells
where alias.version = :expected returning version
-- name: alias_cells
select cells from alias where id = :id
-- name: alias.columns
a.id, a.entity, a.name, a.folded, a.created_at, a.updated_at, a.origin, a.version, a.state
-- name: alias_get
select {alias.columns} from alias a where a.id = :id
-- name: alias_of
select {alias.columns} from alias a where a.entity = :entity and a.state = 'live' order by a.created_at, a.name
-- name: alias_ever
-- Also those that were taken back.
select {alias.columns} from alias a where a.entity = :entity order by a.id
-- name: alias_all
select {alias.columns} from alias a where a.id > :after order by a.id limit :limit
-- name: memory_grant_put
insert into memory_grant (id, memory, agent, permission, granted_by, created_at, updated_at, origin, version, state, cells)
values (:id, :memory, :agent, :permission, :granted_by, :created_at, :updated_at, :origin, :version, :state, :cells)
on conflict (id) do update set permission = excluded.permission, updated_at = excluded.updated_at,
  version = excluded.version, state = excluded.state, cells = excluded.cells
where memory_grant.version = :expected returning version
-- name: memory_grant_cells
select cells from memory_grant where id = :id
-- name: memory_grant.columns
g.id, g.memory, g.agent, g.permission, g.granted_by, g.created_at, g.updated_at, g.origin, g.version, g.state
-- name: memory_grant_get
select {memory_grant.columns} from memory_grant g where g.id = :id
-- name: memory_grant_all
select {memory_grant.columns} from memory_grant g where g.id > :after order by g.id limit :limit
-- name: standard_put
insert into standard (id, memory, parent, created_at, updated_at, origin, version, state, cells)
values (:id, :memory, :parent, :created_at, :updated_at, :origin, :version, :state, :cells)
on conflict (id) do update set memory = excluded.memory, parent = excluded.parent, updated_at = excluded.updated_at,
  version = excluded.version, state = excluded.state, cells = excluded.cells
where standard.version = :expected returning version
-- name: standard_cells
select cells from standard where id = :id
-- name: standard.columns
s.id, s.memory, s.parent, s.created_at, s.updated_at, s.origin, s.version, s.state
-- name: standard_get
select {standard.columns} from standard s where s.id = :id
-- name: standard_all
select {standard.columns} from standard s where s.id > :after order by s.id limit :limit
-- name: agent_put
insert into agent (id, agent_type, capabilities, created_at, updated_at, origin, version, state, cells)
values (:id, :agent_type, :capabilities, :created_at, :updated_at, :origin, :version, :state, :cells)
on conflict (id) do update set agent_type = excluded.agent_type, capabilities = excluded.capabilities,
  updated_at = excluded.updated_at, version = excluded.version, state = excluded.state, cells = excluded.cells
where agent.version = :expected returning version
-- name: agent_cells
select cells from agent where id = :id
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
-- Carry a key over from another copy of the store; what was revoked there is revoked here.
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
-- name: kept_put
insert into kept (name, body) values (:name, :body) on conflict (name) do update set body = excluded.body
-- name: kept_all
select name, body from kept order by name
-- name: migration_list
select number, checksum from migration order by number
-- name: migration_add
insert into migration (number, name, checksum, applied_at) values (:number, :name, :checksum, :applied_at)
-- name: kept_get
select body from kept where name = :name
