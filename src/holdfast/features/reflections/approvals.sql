-- name: pending.columns
p.id, p.operation, p.namespace, p.scope, p.request, p.agent, p.asked_at, p.status, p.decided_by, p.decided_at, p.reason
-- name: pending_add
insert into pending (id, operation, namespace, scope, request, agent, asked_at, status)
values (:id, :operation, :namespace, :scope, :request, :agent, :asked_at, 'pending')
-- name: pending_get
select {pending.columns} from pending p where p.id = :id
-- name: pending_all
-- Newest first, starting before an id.
select {pending.columns} from pending p where p.id < :before order by p.id desc limit :limit
-- name: pending_with_status
select {pending.columns} from pending p where p.status = :status and p.id < :before order by p.id desc limit :limit
-- name: pending_decide
-- Decide once; `request` is replaced by a version without the content.
update pending set status = :status, decided_by = :decided_by, decided_at = :decided_at, reason = :reason,
  request = :request
where id = :id and status = 'pending' returning id
-- name: reflection_proposal_add
insert into reflection_proposal (id, namespace, sources, proposed_at, status)
values (:id, :namespace, :sources, :proposed_at, 'offered') on conflict (id) do nothing returning id
-- name: reflection_proposal_get
select id, namespace, sources, proposed_at, status from reflection_proposal where id = :id
-- name: reflection_proposal_statuses
select id, status from reflection_proposal where id = any(:ids)
-- name: reflection_proposal_decide
update reflection_proposal set status = :status where id = :id
