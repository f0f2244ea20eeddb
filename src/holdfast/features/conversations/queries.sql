-- name: conversation.columns
c.id, c.channel, c.principal, c.agent, c.namespace, c.state, c.started_at, c.last_at, c.closed_at, c.turns, c.covered, c.summary,
  c.pruned
-- name: conversation_put
insert into conversation (id, channel, principal, agent, namespace, state, started_at, last_at, closed_at, turns, covered,
  summary, pruned)
values (:id, :channel, :principal, :agent, :namespace, :state, :started_at, :last_at, :closed_at, :turns, :covered, :summary,
  :pruned)
on conflict (id) do update set state = excluded.state, last_at = excluded.last_at, closed_at = excluded.closed_at,
  turns = excluded.turns, covered = excluded.covered, summary = excluded.summary, pruned = excluded.pruned
-- name: conversation_get
select {conversation.columns} from conversation c where c.id = :id
-- name: conversation_active
select {conversation.columns} from conversation c
where c.state = 'active' and c.channel = :channel and c.namespace = :namespace and c.principal = any(:principals)
order by c.last_at desc, c.id
-- name: conversation_idle
-- Idle conversations, and those whose closing was interrupted.
select {conversation.columns} from conversation c
where (c.state = 'active' and c.last_at <= :before) or c.state = 'closing' order by c.last_at, c.id limit :limit
-- name: conversations_since
select count(*) from conversation c where c.started_at > :since
-- name: conversation_prunable
-- Fully summarised conversations closed before a time whose turns are not archived yet.
select {conversation.columns} from conversation c
where c.state = 'closed' and c.closed_at <= :before and c.covered = c.turns and c.summary is not null and c.pruned = 0
order by c.closed_at, c.id limit :limit
-- name: conversation_select
select {conversation.columns} from conversation c where true
-- name: conversation.of_agent
 and (c.agent = :agent or c.principal = any(:mine))
-- name: conversation.of_principal
 and c.principal = any(:principals)
-- name: conversation.channel
 and c.channel = :channel
-- name: conversation.in
 and c.namespace = :namespace
-- name: conversation.state
 and c.state = :state
-- name: conversation.page
 order by c.last_at desc, c.id desc limit :limit offset :skip
-- name: memory.of_thread
-- Turns of a conversation in order, after a given number.
 and m.thread = :thread and m.place > :after order by m.place limit :limit
-- name: memory.of_thread_last
 and m.thread = :thread order by m.place desc limit :limit
-- name: conversation.of_whom
c.principal = any(:principals) and (:all or c.agent = :me or c.principal = any(:mine))
-- name: conversation_count
select c.namespace, count(*) from conversation c where {conversation.of_whom} group by c.namespace
-- name: memory.of_conversations
 and m.thread in (select c.id from conversation c where {conversation.of_whom})
