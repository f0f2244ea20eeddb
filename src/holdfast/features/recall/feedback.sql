-- name: recall_log.columns
r.id, r.asked_at, r.agent, r.question, r.hits
-- name: recall_log_add
insert into recall_log (id, asked_at, agent, question, hits) values (:id, :asked_at, :agent, :question, :hits)
on conflict (id) do nothing
-- name: recall_log_get
select {recall_log.columns} from recall_log r where r.id = :id
-- name: recall_log_page
select {recall_log.columns} from recall_log r where r.id > :after order by r.id limit :limit
-- name: recall_log_before
-- Newest first, before an id.
select {recall_log.columns} from recall_log r where r.id < :before order by r.id desc limit :limit
-- name: recall_log_of_agent
select {recall_log.columns} from recall_log r where r.agent = :agent and r.id < :before order by r.id desc limit :limit
-- name: recall_log_recent
select r.hits from (select id, asked_at, hits from recall_log where agent = :agent order by id desc limit :limit) as r
where r.asked_at >= :since order by r.id desc
-- name: recall_log_count
select count(*) from recall_log
-- name: recall_log_delete_before
delete from recall_log where asked_at < :before
-- name: recall_log_delete_excess
-- Deletes recalls without feedback first, then the oldest.
delete from recall_log where id in (select r.id from recall_log r
  order by case when exists (select 1 from recall_feedback f where f.recall = r.id) then 1 else 0 end, r.asked_at, r.id
  limit :excess)
-- name: recall_log_redact
-- The query is deleted too: it may quote a purged memory.
update recall_log set hits = :hits, question = null where id = :id
-- name: memory_purged_ids
-- The purged ones among some memories.
select id from memory where id = any(:ids) and state = 'deleted' and reason = 'purged'
-- name: recall_feedback.of
 and t.recall = any(:ids) order by t.given_at, t.agent, t.memory
-- name: recall_feedback_counts
select memory, verdict, count(*) from recall_feedback where memory = any(:ids) group by memory, verdict
