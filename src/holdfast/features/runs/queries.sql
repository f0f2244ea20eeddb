-- name: run.columns
r.id, r.principal, r.agent, r.namespace, r.topology, r.topology_hash, r.inputs, r.state, r.owner, r.token, r.lease_until, r.error,
  r.created_at, r.updated_at
-- name: run_put
insert into run (id, principal, agent, namespace, topology, topology_hash, inputs, state, owner, token, lease_until, error,
  created_at, updated_at)
values (:id, :principal, :agent, :namespace, :topology, :topology_hash, :inputs, :state, :owner, :token, :lease_until, :error,
  :created_at, :updated_at)
on conflict (id) do update set state = excluded.state, owner = excluded.owner, token = excluded.token,
  lease_until = excluded.lease_until, error = excluded.error, updated_at = excluded.updated_at
-- name: run_get
select {run.columns} from run r where r.id = :id
-- name: run_select
select {run.columns} from run r where true
-- name: run.of_agent
 and (r.agent = :agent or r.principal = any(:mine))
-- name: run.of_principal
 and r.principal = any(:principals)
-- name: run.state
 and r.state = :state
-- name: run.page
 order by r.updated_at desc, r.id desc limit :limit offset :skip
-- name: run_phase_put
insert into run_phase (run, name, place, state, attempt, output, error, started_at, updated_at)
values (:run, :name, :place, :state, :attempt, :output, :error, :started_at, :updated_at)
on conflict (run, name) do update set state = excluded.state, attempt = excluded.attempt, output = excluded.output,
  error = excluded.error, started_at = excluded.started_at, updated_at = excluded.updated_at
-- name: run_phases
select name, place, state, attempt, output, error, started_at, updated_at from run_phase where run = :run order by place
-- name: run_phases_drop
delete from run_phase where run = :run
-- name: run_drop
delete from run where id = :id
-- name: provider_session_put
insert into provider_session (channel, principal, namespace, agent, provider, session, expires_at, created_at, updated_at)
values (:channel, :principal, :namespace, :agent, :provider, :session, :expires_at, :now, :now)
on conflict (channel, principal, namespace) do update set agent = excluded.agent, provider = excluded.provider,
  session = excluded.session, expires_at = excluded.expires_at, updated_at = excluded.updated_at
-- name: provider_session_get
select provider, session, expires_at, updated_at from provider_session
where channel = :channel and principal = any(:principals) and namespace = :namespace and (expires_at is null or expires_at > :now)
  and (:admin or agent = :agent or principal = any(:mine))
order by updated_at desc limit 1
-- name: provider_session_drop
delete from provider_session where principal = any(:principals) and channel = :channel and namespace = :namespace
  and (:admin or agent = :agent or principal = any(:mine))
returning channel
-- name: provider_session_drop_all
delete from provider_session where principal = any(:principals) and (:admin or agent = :agent or principal = any(:mine))
returning channel
-- name: run_old
-- Runs that ended before a time. Runs in progress stay.
select r.id from run r where r.state in ('completed', 'failed') and r.updated_at < :before
-- name: run_old.first
 order by r.updated_at, r.id limit :limit
-- name: run_old_phases
delete from run_phase where run = any(:ids)
-- name: run_old_drop
delete from run where id = any(:ids)
