-- name: embedding_tune_index
-- For this transaction, the index scan continues until enough results pass the filters. Before pgvector 0.8, only the
-- search breadth is raised.
select set_config('hnsw.ef_search', cast(:breadth as text), true), case when (
  select string_to_array(extversion, '.')::int[] >= '{0,8}' from pg_extension where extname = 'vector')
  then set_config('hnsw.iterative_scan', 'strict_order', true) end
-- name: embedding_nearest.current
-- Written so that the planner does not assume it is selective: it cannot know that the columns correlate.
case when e.text_hash = m.content_hash then 1 else 0 end <> 0
-- name: embedding_nearest
select m.id, 1 - (e.vector <=> :vector)
from memory m join embedding e on e.memory = m.id where e.model = :model and e.begins > -2 and {embedding_nearest.current}
-- name: embedding_count_filtered
-- Counts up to a limit what the filters, which follow, leave.
select count(*) from (
select 1 from memory m join embedding e on e.memory = m.id where e.model = :model and e.begins > -2 and {embedding_nearest.current}
-- name: embedding_count_filtered.end
 limit :most) as left_over
-- name: embedding_nearest.exact
-- No index has this distance operator, so that every vector is measured.
 order by e.vector <=> :vector, m.id limit :limit
-- name: embedding_nearest.by_384
 and e.dim = 384 order by (e.vector::vector(384)) <=> :vector, m.id limit :limit
-- name: embedding_nearest.by_512
 and e.dim = 512 order by (e.vector::vector(512)) <=> :vector, m.id limit :limit
-- name: embedding_nearest.by_768
 and e.dim = 768 order by (e.vector::vector(768)) <=> :vector, m.id limit :limit
-- name: embedding_nearest.by_1024
 and e.dim = 1024 order by (e.vector::vector(1024)) <=> :vector, m.id limit :limit
-- name: embedding_nearest.by_1536
 and e.dim = 1536 order by (e.vector::vector(1536)) <=> :vector, m.id limit :limit
