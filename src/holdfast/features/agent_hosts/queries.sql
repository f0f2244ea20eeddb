-- name: hook_session_get
select turns, given_ids, tools, turn_digests from hook_session where id = :id
-- name: hook_session_put
insert into hook_session (id, seen_at, turns, given_ids, tools, turn_digests) values (:id, :now, :turns, :given_ids, :tools, :turn_digests)
on conflict (id) do update set seen_at = excluded.seen_at, turns = excluded.turns, given_ids = excluded.given_ids,
  tools = excluded.tools, turn_digests = excluded.turn_digests
-- name: hook_session_prune
-- Sessions not seen for long, and all but the newest ones.
delete from hook_session where seen_at < :before
  or seen_at < (select s.seen_at from hook_session s order by s.seen_at desc limit 1 offset :most)
-- name: hook_session_drop
delete from hook_session where id = :id
