-- name: embedding_put
insert into embedding (memory, model, dim, text_hash, made_at, vector)
values (:memory, :model, :dim, :text_hash, :made_at, :vector)
on conflict (memory, model) do update set dim = excluded.dim, text_hash = excluded.text_hash,
  made_at = excluded.made_at, vector = excluded.vector
-- name: embedding_drop
delete from embedding where memory = :memory
-- name: embedding_dim
-- How many numbers the vectors of a model have.
select dim from embedding where model = :model limit 1
-- name: embedding_count
select e.model, max(e.dim), count(*), cast(sum(case when e.text_hash = m.content_hash then 0 else 1 end) as bigint)
from embedding e join memory m on m.id = e.memory where true
-- name: embedding_count.per_model
group by e.model order by e.model
