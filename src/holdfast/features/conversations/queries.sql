-- name: conversation.active
 and t.state = 'active' order by t.last_at desc, t.id
-- name: conversation.idle
-- Idle conversations, and those whose closing was interrupted.
 and ((t.state = 'active' and t.last_at <= :before) or t.state = 'closing') order by t.last_at, t.id limit :limit
-- name: conversations_since
select count(*) from conversation c where c.started_at > :since
-- name: conversation.prunable
-- Fully summarised conversations closed before a time whose turns are not archived yet.
 and t.state = 'closed' and t.closed_at <= :before and t.covered = t.turns and t.summary is not null and t.pruned = 0
order by t.closed_at, t.id limit :limit
-- name: conversation.of_agent
 and (t.agent = :agent or t.principal = any(:mine))
-- name: conversation.of_principal
 and t.principal = any(:principals)
-- name: conversation.channel
 and t.channel = :channel
-- name: conversation.in
 and t.namespace = :namespace
-- name: conversation.state
 and t.state = :state
-- name: conversation.page
 order by t.last_at desc, t.id desc limit :limit offset :skip
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
