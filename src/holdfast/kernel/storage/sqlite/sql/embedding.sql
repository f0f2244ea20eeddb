-- name: embedding_signs
-- Vectors of one model and size between two numbers.
select number, rowno, signs from embedding_sign
where number > :after and number <= :last and model = :model and length(signs) = :size order by number limit :limit
-- name: embedding_packs
-- The same as packed blocks, from a block on.
select block, packed from embedding_pack where block >= :block and model = :model and size = :size
order by block limit :limit
-- name: embedding_removed
-- Deleted vectors that are still in packed blocks.
select number from embedding_gone where number > :after
-- name: embedding_packs_rebuild
-- Repacks all blocks without deleted vectors.
insert into embedding_repack (least, most) values (1, -1)
-- name: embedding_nearest
-- Current vectors of some numbers; filters follow.
select s.number, m.id, e.vector from embedding_sign s
cross join embedding e on e.memory = s.memory and e.model = s.model and e.begins = s.begins
cross join memory m on m.rowno = s.rowno where s.number = any(:numbers) and e.text_hash = m.content_hash
-- name: embedding_numbers
select number from embedding_sign where number = any(:numbers)
-- name: embedding_last
-- The last assigned number, even if it was deleted.
select coalesce(max(seq), 0) from sqlite_sequence where name = 'embedding_sign'
-- name: chain_origin
-- The replica id; it changes when the store is restored.
select origin from chain
