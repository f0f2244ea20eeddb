-- name: run.of_agent
 and (t.agent = :agent or t.principal = any(:mine))
-- name: run.of_principal
 and t.principal = any(:principals)
-- name: run.state
 and t.state = :state
-- name: run.page
 order by t.updated_at desc, t.id desc limit :limit offset :skip
-- name: run.ended
 and t.state in ('completed', 'failed')
-- name: run_phase.of_run
 and t.run = :run order by t.place
-- name: provider_session.of_principal
 and t.principal = any(:principals)
-- name: provider_session.of_agent
 and (t.agent = :agent or t.principal = any(:mine))
-- name: provider_session.in_scope
 and t.channel = :channel and t.namespace = :namespace
-- name: provider_session.current
 and (t.expires_at is null or t.expires_at > :now) order by t.updated_at desc limit 1
