-- name: embedding_signs
-- What was added between two numbers of a model's vectors of one size.
select number, rowno, signs from embedding_sign
where number > :after and number <= :last and model = :model and length(signs) = :size order by number limit :limit
-- name: embedding_packs
-- The same, packed, from a block on.
select block, packed from embedding_pack where block >= :block and model = :model and size = :size
order by block limit :limit
-- name: embedding_gone
-- What is packed and gone.
select number from embedding_gone where number > :after
-- name: embedding_packs_purged
-- No pack keeps the signs of what is gone.
insert into embedding_repack (least, most) values (1, -1)
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
