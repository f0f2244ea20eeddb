-- name: hook_session_get
select turns, given, tools, said from hook_session where id = :id
-- name: hook_session_put
insert into hook_session (id, seen_at, turns, given, tools, said) values (:id, :now, :turns, :given, :tools, :said)
on conflict (id) do update set seen_at = excluded.seen_at, turns = excluded.turns, given = excluded.given,
  tools = excluded.tools, said = excluded.said
-- name: hook_session_prune
-- Sessions not seen for long, and all but the newest ones.
delete from hook_session where seen_at < :before
  or seen_at < (select s.seen_at from hook_session s order by s.seen_at desc limit 1 offset :most)
-- name: hook_session_drop
delete from hook_session where id = :id
