-- name: memory_said
-- When what holds any of some words was said; filters follow.
select m.id, coalesce(m.occurred_at, m.created_at)
from memory_text t cross join memory m on m.rowno = t.rowid where memory_text match :match
-- name: memory_said.some
 limit :limit
