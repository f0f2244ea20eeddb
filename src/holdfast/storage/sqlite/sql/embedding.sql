-- name: embedding_signs
-- What was added behind a number of a model's vectors of one size.
select number, rowno, signs from embedding_sign where number > :after and model = :model and length(signs) = :size
order by number limit :limit
-- name: embedding_found
-- The vectors of some numbers, as far as they are of what their memories say now; filters follow.
select s.number, m.id, e.vector from embedding_sign s
cross join embedding e on e.memory = s.memory and e.model = s.model and e.begins = s.begins
cross join memory m on m.rowno = s.rowno where s.number = any(:numbers) and e.text_hash = m.content_hash
-- name: embedding_numbers
select number from embedding_sign where number = any(:numbers)
-- name: embedding_last
-- The number that was given last, be it to what is gone.
select coalesce(max(seq), 0) from sqlite_sequence where name = 'embedding_sign'
-- name: chain_origin
-- Whose journal this is: another after the store was restored.
select origin from chain
