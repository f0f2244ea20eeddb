-- name: llm_answer_prune
delete from llm_answer where created_at < :before
-- name: llm_answer_evict
-- Oldest first.
delete from llm_answer where key in (select a.key from llm_answer a order by a.created_at, a.key limit :excess)
-- name: llm_answer_clear
-- Any answer may quote purged text.
delete from llm_answer
-- name: llm_tokens_spent
select cast(coalesce(sum(spent), 0) as bigint) from llm_call where day = :day
-- name: llm_call_prune
delete from llm_call where day < :before
-- name: llm_usage
select day, task, model, count(*), cast(sum(case when outcome = 'answered' then 1 else 0 end) as bigint),
  cast(sum(input_tokens) as bigint), cast(sum(output_tokens) as bigint), cast(sum(cached_tokens) as bigint),
  cast(sum(spent) as bigint), cast(sum(cost) as bigint)
from llm_call where day >= :since group by day, task, model order by day desc, task, model
