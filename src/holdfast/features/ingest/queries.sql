-- name: ingest.previous
-- Ingests of a source by an agent, newest first.
 and t.source_uri = :source_uri and t.namespace = :namespace and t.agent = :agent
order by t.ingested_at desc, t.id desc limit :limit
-- name: ingest_memory_statuses
-- Title and state of memories; visibility clauses are appended.
select m.id, m.title, m.state, m.lives_until from memory m where true
-- name: ingest_purge
-- Erase model answers of a document once any memory made from it is purged.
update ingest set stages = '[]' where document = any(:ids)
or id in (select s.ingest from ingest_segment s where s.memory = any(:ids))
-- name: ingest_segment_purge
update ingest_segment set reason = '', digest = '' where memory = any(:ids)
