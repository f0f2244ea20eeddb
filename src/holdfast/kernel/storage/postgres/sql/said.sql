-- name: memory_said
-- When what holds any of some words was said; filters follow.
select m.id, coalesce(m.occurred_at, m.created_at)
from memory_text t join memory m on m.rowno = t.rowno where t.words @@ cast(:match as tsquery)
-- name: memory_said.some
 limit :limit
