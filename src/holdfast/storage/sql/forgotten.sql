-- name: forgotten_put
insert into forgotten (id, at, agent, counts) values (:id, :at, :agent, :counts)
on conflict (id) do update set at = excluded.at, agent = excluded.agent, counts = excluded.counts
-- name: forgotten_get
select at, agent, counts from forgotten where id = :id
-- name: forget_task_runs
delete from task_run where task in (select t.id from task t where t.principal = any(:names)) returning id
-- name: forget_tasks
delete from task where principal = any(:names) returning id
-- name: forget_phases
delete from run_phase where run in (select r.id from run r where r.principal = any(:names)) returning run
-- name: forget_runs
delete from run where principal = any(:names) returning id
-- name: forget_usage
delete from usage where principal = any(:names) returning id
-- name: forget_budgets
delete from budget where principal = any(:names) returning id
-- name: forget_sessions
delete from provider_session where principal = any(:names) returning channel
-- name: forget_outcomes
delete from outcome where principal = any(:names) returning id
-- name: forget_conversations
delete from conversation where principal = any(:names) returning id
-- name: forget_onboarding
delete from onboarding where principal = any(:names) returning step
-- name: conversations_of
select c.id, c.summary from conversation c where c.principal = any(:names)
-- name: memory_of_people
-- Memories of some namespaces or threads, or of some ids, in whatever state; those that were purged say nothing any more.
select {memory.columns} from memory m
where (m.namespace = any(:places) or m.thread = any(:threads) or m.id = any(:ids)) and coalesce(m.reason, '') <> 'purged'
-- name: memory_of_kind
select {memory.columns} from memory m where m.kind = :kind and m.id > :after and coalesce(m.reason, '') <> 'purged'
order by m.id limit :limit
