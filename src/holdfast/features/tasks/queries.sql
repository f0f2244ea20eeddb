-- name: task.columns
t.id, t.principal, t.agent, t.namespace, t.channel, t.reply_to, t.title, t.kind, t.handler, t.target, t.payload, t.zone,
  t.first_at, t.repeat, t.misfire, t.due_at, t.ready_at, t.state, t.attempts, t.most_attempts, t.timeout, t.owner, t.token,
  t.claimed_at, t.cancel_asked, t.last_error, t.unique_key, t.created_at, t.updated_at
-- name: task_put
insert into task (id, principal, agent, namespace, channel, reply_to, title, kind, handler, target, payload, zone, first_at,
  repeat, misfire, due_at, ready_at, state, attempts, most_attempts, timeout, owner, token, claimed_at, cancel_asked, last_error,
  unique_key, created_at, updated_at)
values (:id, :principal, :agent, :namespace, :channel, :reply_to, :title, :kind, :handler, :target, :payload, :zone, :first_at,
  :repeat, :misfire, :due_at, :ready_at, :state, :attempts, :most_attempts, :timeout, :owner, :token, :claimed_at, :cancel_asked,
  :last_error, :unique_key, :created_at, :updated_at)
on conflict (id) do update set title = excluded.title, kind = excluded.kind, reply_to = excluded.reply_to,
  payload = excluded.payload, zone = excluded.zone, first_at = excluded.first_at, repeat = excluded.repeat,
  misfire = excluded.misfire, due_at = excluded.due_at, ready_at = excluded.ready_at, state = excluded.state,
  attempts = excluded.attempts, most_attempts = excluded.most_attempts, timeout = excluded.timeout, owner = excluded.owner,
  token = excluded.token, claimed_at = excluded.claimed_at, cancel_asked = excluded.cancel_asked,
  last_error = excluded.last_error, updated_at = excluded.updated_at
-- name: task_select
select {task.columns} from task t where true
-- name: task_count
select count(*) from task t where true
-- name: task.of_agent
-- Tasks visible to an agent: those it created and those it owns.
 and (t.agent = :agent or t.principal = any(:mine))
-- name: task.of_principal
 and t.principal = any(:principals)
-- name: task.reach_first
 and ((t.namespace = :reach_n or (t.namespace >= :reach_n || '/' and t.namespace < :reach_n || '0'))
-- name: task.reach_more
 or (t.namespace = :reach_n or (t.namespace >= :reach_n || '/' and t.namespace < :reach_n || '0'))
-- name: task.reach_end
 )
-- name: task.id_prefix
-- Ids with a prefix, as a range.
 and t.id >= :prefix and t.id < :beyond order by t.id limit 2
-- name: task.states
 and t.state = any(:states)
-- name: task.due
 and t.ready_at <= :now
-- name: task.by_unique_key
 and t.unique_key = :unique_key
-- name: task.same
-- Pending tasks with the same title and due time.
 and t.state = 'pending' and t.title = :title and t.due_at = :due_at
-- name: task.due_between
 and t.state = 'pending' and t.due_at >= :earliest and t.due_at <= :latest order by t.due_at, t.id
  limit :limit
-- name: task.abandoned
-- Running tasks whose lease has expired. Read before the due ones, so that a long queue does not delay them.
 and t.state = 'running' and t.ready_at <= :now order by t.ready_at, t.id limit :limit
-- name: task.claimable
 and t.state = 'pending' and t.ready_at <= :now order by t.ready_at, t.id limit :limit
-- name: task.handled
 and t.handler = any(:handlers)
-- name: task.page
 order by t.due_at, t.id limit :limit offset :skip
-- name: task_claim
update task set state = 'running', owner = :owner, token = token + 1, claimed_at = :now, attempts = attempts + 1,
  ready_at = :until, updated_at = :now
where id = any(:ids)
-- name: task_heartbeat
update task set ready_at = :until, updated_at = :now
where id = :id and token = :token and state = 'running' and ready_at > :now returning cancel_asked
-- name: task_next_ready
-- Time at which the next task can be claimed.
select min(t.ready_at) from task t where t.ready_at is not null
-- name: task_run.columns
r.id, r.task, r.due_at, r.attempt, r.owner, r.token, r.started_at, r.finished_at, r.status, r.final, r.result, r.error, r.tokens
-- name: task_run_add
insert into task_run (id, task, due_at, attempt, owner, token, started_at, finished_at, status, final, result, error, tokens)
values (:id, :task, :due_at, :attempt, :owner, :token, :started_at, :finished_at, :status, :final, :result, :error, :tokens)
-- name: task_run_page
select {task_run.columns} from task_run r where r.task = :task order by r.started_at desc, r.id desc limit :limit
-- name: task_run_final
-- The attempt that ended an occurrence.
select id from task_run where task = :task and due_at = :due_at and final = 1
-- name: task_run_old
-- Attempts that ended before a time, except those of an occurrence still in progress.
select r.id from task_run r where r.finished_at < :before and (r.final = 1
  or not exists (select 1 from task t where t.id = r.task and t.due_at = r.due_at and t.state in ('pending', 'running')))
-- name: task_run_old.first
 order by r.finished_at, r.id limit :limit
-- name: task_run_old_drop
delete from task_run where id = any(:ids)
