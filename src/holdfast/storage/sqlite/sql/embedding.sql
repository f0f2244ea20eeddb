-- name: embedding_found
-- The vectors among which the nearest are looked for; filters follow.
select m.id, e.vector, m.priority, m.confidence, m.updated_at from memory m join embedding e on e.memory = m.id
where e.model = :model and e.text_hash = m.content_hash
