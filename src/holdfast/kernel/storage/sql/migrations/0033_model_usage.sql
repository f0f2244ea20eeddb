-- One ledger of what models cost: calls of the store's own model are usage with a task.
alter table usage add column task text;
alter table usage add column outcome text;
alter table usage add column spent integer;
insert into usage (id, at, day, principal, agent, session, model, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, cost, currency, state, ends_at, unique_key, task, outcome, spent)
select id, day * 86400000000, day, agent, agent, '', model, input_tokens, output_tokens, cached_tokens, 0, cost, null, 'kept',
  null, null, task, outcome, spent
from llm_call;
drop table llm_call;
create index usage_task on usage (day, spent) where task is not null;
