-- name: embedding_put
insert into embedding (memory, model, begins, ends, dim, text_hash, made_at, vector)
values (:memory, :model, :begins, :ends, :dim, :text_hash, :made_at, :vector)
on conflict (memory, model, begins) do update set ends = excluded.ends, dim = excluded.dim,
  text_hash = excluded.text_hash, made_at = excluded.made_at, vector = excluded.vector
-- name: embedding_delete_of_model
-- Deletes the embeddings of a memory that are about to be replaced.
delete from embedding where memory = :memory and model = :model
-- name: embedding_delete
delete from embedding where memory = :memory
-- name: embedding_dim
-- The dimension of a model.
select dim from embedding where model = :model limit 1
-- name: embedding_of
-- The embeddings of some memories, each with the hash of its text.
select memory, begins, ends, vector, text_hash from embedding where memory = any(:ids) and model = :model
-- name: embedding_count
select e.model, max(e.dim), count(distinct e.memory), count(*),
  cast(sum(case when e.text_hash = m.content_hash then 0 else 1 end) as bigint)
from embedding e join memory m on m.id = e.memory where true
-- name: embedding_count.per_model
group by e.model order by e.model
-- name: embedding_due
-- Memories after a row without an embedding of their current text made after a time; filters may follow.
select m.rowno, m.id, m.title, m.content, m.content_hash from memory m
where m.rowno > :after and m.state = 'live' and not exists (select 1 from embedding e
  where e.memory = m.id and e.model = :model and e.text_hash = m.content_hash and e.made_at > :renewed)
-- name: embedding_count_missing
-- Number of live memories, and of those without an embedding of their current text.
select count(*), cast(coalesce(sum(case when exists (select 1 from embedding e
  where e.memory = m.id and e.model = :model and e.text_hash = m.content_hash) then 0 else 1 end), 0) as bigint)
from memory m where m.state = 'live'
-- name: embedding_due.first
 order by m.rowno limit :limit
-- name: embedding_count_of_model
select count(*) from embedding where model = :model
-- name: embedding_delete_model
-- Deletes all embeddings of a model.
delete from embedding where model = :model
-- name: embedding_reply_targets
-- The message of another speaker just before some memories, if everyone who sees them may see it.
select m.id, p.content from memory m join memory p on p.rowno = coalesce(({thread.before}), ({thread.earlier}))
where m.id = any(:ids) and m.thread_key is not null and m.speaker <> p.speaker
  and (p.scope <> 'private' or (m.scope = 'private' and m.agent = p.agent))
-- name: memory_changed
-- Memories changed after a journal entry, with their last change.
select record, max(seq) from journal where seq > :after and seq <= :upto and kind = 'memory' group by record
-- name: memory.first
 limit :limit
