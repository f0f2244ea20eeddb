-- name: peer_seen_list
select node, origin, seq, followed, numbers, release, unknown, ahead, at from peer_seen order by node
-- name: peer_seen_get
select node, origin, seq, followed, numbers, release, unknown, ahead, at from peer_seen where node = :node
-- name: peer_seen_put
insert into peer_seen (node, origin, seq, followed, numbers, release, unknown, ahead, at)
values (:node, :origin, :seq, :followed, :numbers, :release, :unknown, :ahead, :at)
on conflict (node) do update set origin = excluded.origin, seq = excluded.seq, followed = excluded.followed,
  numbers = excluded.numbers, release = excluded.release, unknown = excluded.unknown, ahead = excluded.ahead,
  at = excluded.at
-- name: peer_link_list
select address, node, tried_at, succeeded_at, failed_at, error, failures, pulled, pushed, conflicts from peer_link
order by address
-- name: peer_link_get
select address, node, tried_at, succeeded_at, failed_at, error, failures, pulled, pushed, conflicts from peer_link
where address = :address
-- name: peer_link_put
insert into peer_link (address, node, tried_at, succeeded_at, failed_at, error, failures, pulled, pushed, conflicts)
values (:address, :node, :tried_at, :succeeded_at, :failed_at, :error, :failures, :pulled, :pushed, :conflicts)
on conflict (address) do update set node = excluded.node, tried_at = excluded.tried_at,
  succeeded_at = excluded.succeeded_at, failed_at = excluded.failed_at, error = excluded.error,
  failures = excluded.failures, pulled = excluded.pulled, pushed = excluded.pushed, conflicts = excluded.conflicts
-- name: peer_seen_forget
delete from peer_seen where node = :node
-- name: peer_link_forget
delete from peer_link where node = :node
-- name: quarantine_by_peer
select peer, count(*) from quarantine group by peer order by peer
-- name: sync_cursor_list
select origin, seq from sync_cursor order by origin
-- name: conflict_total
select count(*) from conflict
