-- name: match_times
-- Times of all memories with any of some words; filters follow.
select m.id, coalesce(m.occurred_at, m.created_at)
from memory_text t join memory m on m.rowno = t.rowno where t.words @@ cast(:match as tsquery)
-- name: match_times.limit
 limit :limit
