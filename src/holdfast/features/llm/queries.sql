-- name: llm_answer_prune
delete from llm_answer where created_at < :before
-- name: llm_answer_evict
-- Oldest first.
delete from llm_answer where key in (select a.key from llm_answer a order by a.created_at, a.key limit :excess)
-- name: llm_answer_clear
-- Any answer may quote purged text.
delete from llm_answer
