-- name: usage_add
insert into usage (id, at, day, principal, agent, session, model, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, cost, currency, state, ends_at, unique_key)
values (:id, :at, :day, :principal, :agent, :session, :model, :input_tokens, :output_tokens, :cache_read_tokens,
  :cache_write_tokens, :cost, :currency, :state, :ends_at, :unique_key)
-- name: usage_by_key
select id, cost, currency, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens from usage
where agent = :agent and unique_key = :unique_key
-- name: usage_reservation
select principal, agent from usage where id = :id and state = 'reserved'
-- name: usage_delete_reservation
delete from usage where id = :id and state = 'reserved' returning id
-- name: usage_delete_expired
-- Deletes expired reservations.
delete from usage where state = 'reserved' and ends_at <= :now
-- name: usage_spent
-- Tokens and cost that count against a budget, including reservations.
select cast(coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens), 0) as bigint),
  cast(coalesce(sum(case when currency = :currency then cost end), 0) as bigint)
from usage where day >= :since and (:principal = '*' or principal = any(:principals)) and (:model = '*' or model = :model
  or (:prefix <> '' and substr(model, 1, length(:prefix)) = :prefix)) and (state = 'kept' or ends_at > :now)
-- name: usage_sums
-- Usage totals by group; columns that are not grouped by are null.
select case when :by_day then day end, case when :by_principal then principal end, case when :by_model then model end,
  case when :by_session then session end, currency, count(*), cast(sum(input_tokens) as bigint),
  cast(sum(output_tokens) as bigint), cast(sum(cache_read_tokens) as bigint), cast(sum(cache_write_tokens) as bigint),
  cast(coalesce(sum(cost), 0) as bigint), cast(sum(case when cost is null then 1 else 0 end) as bigint)
from usage where state = 'kept' and day >= :since and day <= :until
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
-- name: price_put
insert into price (model, since, currency, input, output, cache_read, cache_write, set_by, set_at)
values (:model, :since, :currency, :input, :output, :cache_read, :cache_write, :set_by, :set_at)
on conflict (model, since) do update set currency = excluded.currency, input = excluded.input, output = excluded.output,
  cache_read = excluded.cache_read, cache_write = excluded.cache_write, set_by = excluded.set_by, set_at = excluded.set_at
-- name: price_list
select model, since, currency, input, output, cache_read, cache_write from price order by model, since desc
-- name: price_delete
delete from price where model = :model and since = :since returning model
-- name: budget_put
insert into budget (id, principal, model, period, tokens, cost, currency, set_by, set_at)
values (:id, :principal, :model, :period, :tokens, :cost, :currency, :set_by, :set_at)
on conflict (id) do update set tokens = excluded.tokens, cost = excluded.cost, currency = excluded.currency,
  set_by = excluded.set_by, set_at = excluded.set_at
-- name: budget_list
select id, principal, model, period, tokens, cost, currency from budget order by principal, model, period
-- name: budget_delete
delete from budget where id = :id returning id
-- name: old_count
-- Number of rows past their retention; the query for them follows.
select count(*) from (
-- name: old_count.end
) o
-- name: usage_old
select id from usage where state = 'kept' and day < :before
-- name: usage_old.first
 order by day, id limit :limit
-- name: usage_old_drop
delete from usage where id = any(:ids)
