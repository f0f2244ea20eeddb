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
-- name: llm_tokens_spent
select cast(coalesce(sum(spent), 0) as bigint) from llm_call where day = :day
-- name: llm_call_add
insert into llm_call (id, day, agent, task, model, spent, input_tokens, output_tokens, cached_tokens, cost, outcome)
values (:id, :day, :agent, :task, :model, :spent, 0, 0, 0, 0, 'asked')
-- name: llm_call_finish
update llm_call set model = :model, spent = :spent, input_tokens = :input_tokens, output_tokens = :output_tokens,
  cached_tokens = :cached_tokens, cost = :cost, outcome = :outcome
where id = :id
-- name: llm_call_prune
delete from llm_call where day < :before
-- name: llm_usage
select day, task, model, count(*), cast(sum(case when outcome = 'answered' then 1 else 0 end) as bigint),
  cast(sum(input_tokens) as bigint), cast(sum(output_tokens) as bigint), cast(sum(cached_tokens) as bigint),
  cast(sum(spent) as bigint), cast(sum(cost) as bigint)
from llm_call where day >= :since group by day, task, model order by day desc, task, model
