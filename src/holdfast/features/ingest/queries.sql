-- name: ingest.columns
i.id, i.namespace, i.source_uri, i.content_hash, i.pipeline, i.pipeline_version, i.agent, i.document, i.stages, i.ingested_at
-- name: ingest_get
select {ingest.columns} from ingest i where i.id = :id
-- name: ingest_previous
-- Ingests of a source by an agent, newest first.
select {ingest.columns} from ingest i
where i.source_uri = :source_uri and i.namespace = :namespace and i.agent = :agent
order by i.ingested_at desc, i.id desc limit :limit
-- name: ingest_put
insert into ingest (id, namespace, source_uri, content_hash, pipeline, pipeline_version, agent, document, stages, ingested_at)
values (:id, :namespace, :source_uri, :content_hash, :pipeline, :pipeline_version, :agent, :document, :stages, :ingested_at)
-- name: ingest_delete
delete from ingest where id = :id
-- name: ingest_segment_put
insert into ingest_segment (ingest, place, digest, decision, memory, other, replaces, kind, line, begins, ends, reason, method,
  model)
values (:ingest, :place, :digest, :decision, :memory, :other, :replaces, :kind, :line, :begins, :ends, :reason, :method, :model)
-- name: ingest_segment_list
select place, digest, decision, memory, other, replaces, kind, line, begins, ends, reason, method, model
from ingest_segment where ingest = :ingest order by place
-- name: ingest_segment_delete
delete from ingest_segment where ingest = :ingest
-- name: ingest_memory_statuses
-- Title and state of memories; visibility clauses are appended.
select m.id, m.title, m.state, m.lives_until from memory m where true
-- name: ingest_purge
-- Erase model answers of a document once any memory made from it is purged.
update ingest set stages = '[]' where document = any(:ids)
or id in (select s.ingest from ingest_segment s where s.memory = any(:ids))
-- name: ingest_segment_purge
update ingest_segment set reason = '', digest = '' where memory = any(:ids)
