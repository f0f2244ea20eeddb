-- name: llm_answer_get
select model, answer from llm_answer where key = :key and created_at >= :since
-- name: llm_answer_put
insert into llm_answer (key, model, answer, created_at) values (:key, :model, :answer, :now)
on conflict (key) do update set model = excluded.model, answer = excluded.answer, created_at = excluded.created_at
-- name: llm_answer_prune
delete from llm_answer where created_at < :before
-- name: llm_answer_count
select count(*) from llm_answer
-- name: llm_answer_evict
-- Oldest first.
delete from llm_answer where key in (select a.key from llm_answer a order by a.created_at, a.key limit :excess)
-- name: llm_answer_clear
-- Any answer may quote purged text.
delete from llm_answer
