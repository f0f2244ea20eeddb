-- name: usage.by_key
 and t.agent = :agent and t.unique_key = :unique_key
-- name: usage.final
 and t.state = 'kept' and t.task is null
-- name: price.in_order
 order by t.model, t.since desc
-- name: budget.in_order
 order by t.principal, t.model, t.period
-- name: usage_delete_expired
-- Deletes expired reservations.
delete from usage where state = 'reserved' and ends_at <= :now
-- name: usage_spent
-- Tokens and cost that count against a budget, including reservations.
select cast(coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens), 0) as bigint),
  cast(coalesce(sum(case when currency = :currency then cost end), 0) as bigint)
from usage where day >= :since and (:principal = '*' or principal = any(:principals)) and (:model = '*' or model = :model
  or (:prefix <> '' and substr(model, 1, length(:prefix)) = :prefix)) and (state = 'kept' or ends_at > :now)
  and task is null
-- name: usage_sums
-- Usage totals by group; columns that are not grouped by are null.
select case when :by_day then day end, case when :by_principal then principal end, case when :by_model then model end,
  case when :by_session then session end, currency, count(*), cast(sum(input_tokens) as bigint),
  cast(sum(output_tokens) as bigint), cast(sum(cache_read_tokens) as bigint), cast(sum(cache_write_tokens) as bigint),
  cast(coalesce(sum(cost), 0) as bigint), cast(sum(case when cost is null then 1 else 0 end) as bigint)
from usage where state = 'kept' and task is null and day >= :since and day <= :until
-- name: usage_sums.agent
 and (agent = :agent or principal = any(:mine))
-- name: usage_sums.principals
 and principal = any(:principals)
-- name: usage_sums.session
 and session = :session
-- name: usage_sums.model
 and model = :model
-- name: usage_sums.grouped
 group by 1, 2, 3, 4, 5 order by 1 desc, 2, 3, 4, 5 limit :limit
-- name: usage_finish
-- Ends a call of the store's own model.
update usage set model = :model, input_tokens = :input_tokens, output_tokens = :output_tokens,
  cache_read_tokens = :cache_read_tokens, cost = :cost, outcome = :outcome, spent = :spent
where id = :id
-- name: usage_tokens_spent
select cast(coalesce(sum(spent), 0) as bigint) from usage where task is not null and day = :day
-- name: usage_of_tasks
select day, task, model, count(*), cast(sum(case when outcome = 'answered' then 1 else 0 end) as bigint),
  cast(sum(input_tokens) as bigint), cast(sum(output_tokens) as bigint), cast(sum(cache_read_tokens) as bigint),
  cast(sum(spent) as bigint), cast(sum(cost) as bigint)
from usage where task is not null and day >= :since group by day, task, model order by day desc, task, model
-- name: usage_prune_tasks
delete from usage where task is not null and day < :before
