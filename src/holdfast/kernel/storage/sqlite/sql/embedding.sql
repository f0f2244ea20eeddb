-- name: binary_index_page
-- Vectors of one model and size between two numbers.
select number, rowno, bits from binary_index
where number > :after and number <= :last and model = :model and length(bits) = :size order by number limit :limit
-- name: binary_index_packs
-- The same as packed blocks, from a block on.
select block, packed from binary_index_pack where block >= :block and model = :model and size = :size
order by block limit :limit
-- name: embedding_removed
-- Deleted vectors that are still in packed blocks.
select number from embedding_removed where number > :after
-- name: binary_index_rebuild
-- Repacks all blocks without deleted vectors.
insert into binary_index_repack (least, most) values (1, -1)
-- name: embedding_nearest
-- Current vectors of some numbers; filters follow.
select s.number, m.id, e.vector from binary_index s
cross join embedding e on e.memory = s.memory and e.model = s.model and e.begins = s.begins
cross join memory m on m.rowno = s.rowno where s.number = any(:numbers) and e.text_hash = m.content_hash
-- name: binary_index_numbers
select number from binary_index where number = any(:numbers)
-- name: embedding_last
-- The last assigned number, even if it was deleted.
select coalesce(max(seq), 0) from sqlite_sequence where name = 'binary_index'
-- name: journal_head_origin
-- The replica id; it changes when the store is restored.
select origin from journal_head
