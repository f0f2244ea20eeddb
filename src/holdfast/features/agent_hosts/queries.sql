-- name: hook_session_prune
-- Sessions not seen for long, and all but the newest ones.
delete from hook_session where seen_at < :before
  or seen_at < (select s.seen_at from hook_session s order by s.seen_at desc limit 1 offset :most)
