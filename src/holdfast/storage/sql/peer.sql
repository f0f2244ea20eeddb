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
-- name: nonce_add
-- A number that a peer used in a request; nothing, if it did before.
insert into peer_nonce (node, nonce, at) values (:node, :nonce, :at) on conflict (node, nonce) do nothing returning at
-- name: nonce_forget
delete from peer_nonce where at < :floor
