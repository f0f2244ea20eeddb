-- name: peer.columns
p.name, p.node, p.public_key, p.url, p.tell, p.take, p.admin, p.fingerprint, p.enrolled_at
-- name: peer_list
select {peer.columns} from peer p order by p.enrolled_at, p.name
-- name: peer_by_node
select {peer.columns} from peer p where p.node = :node
-- name: peer_by_name
select {peer.columns} from peer p where p.name = :name
-- name: peer_put
insert into peer (name, node, public_key, url, tell, take, admin, fingerprint, enrolled_at)
values (:name, :node, :public_key, :url, :tell, :take, :admin, :fingerprint, :enrolled_at)
on conflict (name) do update set node = excluded.node, public_key = excluded.public_key, url = excluded.url,
  tell = excluded.tell, take = excluded.take, admin = excluded.admin, fingerprint = excluded.fingerprint
-- name: peer_remove
delete from peer where name = :name
-- name: quarantine_out_of_scope
-- Changes outside their sender's namespaces, newest first.
select {quarantine.columns} from quarantine q where reason = 'scope'
order by recorded_at desc, origin, n desc limit :limit
-- name: quarantine_drop_peer
delete from quarantine where peer = :node
-- name: nonce_add
-- Store the nonce of a request; returns no row if it was used before.
insert into peer_nonce (node, nonce, at) values (:node, :nonce, :at) on conflict (node, nonce) do nothing returning at
-- name: nonce_list
select node, nonce, at from peer_nonce order by node, nonce
-- name: nonce_forget
delete from peer_nonce where at < :floor
-- name: memory_namespaces
select id, namespace from memory where id = any(:ids)
-- name: memory_referrers
-- Records that refer to a memory: links at either end, aliases, grants, standards, invalidations.
select 'link', id from link where source = :id
union
select 'link', id from link where target = :id
union
select 'alias', id from alias where entity = :id
union
select 'memory_grant', id from memory_grant where memory = :id
union
select 'standard', id from standard where memory = :id
union
select 'invalidation', id from invalidation where dependent = :id
union
select 'invalidation', id from invalidation where invalidated = :id
union
select 'invalidation', i.id from link l join invalidation i on i.invalidated = l.target and i.invalidating = l.source
where l.source = :id
order by 1 desc, 2
