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
-- name: task_run.of_task
 and t.task = :task order by t.started_at desc, t.id desc limit :limit
-- name: task_run.ending
-- The attempt that ended an occurrence.
 and t.task = :task and t.due_at = :due_at and t.final = 1
-- name: task_run.ended
-- Not attempts of an occurrence still in progress.
 and (t.final = 1 or not exists (
  select 1 from task o where o.id = t.task and o.due_at = t.due_at and o.state in ('pending', 'running')))
