-- name: erased_person_any
select 1 from erased_person limit 1
-- name: conversations_of
select c.id, c.summary from conversation c where c.principal = any(:names) and c.started_at <= :upto
-- name: names_with_records
-- Names of everyone with records other than memories; local tables come from their declarations.
select principal from interaction
union select name from principal where state = 'live'
union select stands_for from principal where state = 'live' and stands_for is not null
-- name: namespaces_with_memories
-- Namespaces below a root that contain memories.
select distinct m.namespace from memory m where m.namespace >= :root || '/' and m.namespace < :root || '0'
-- name: memory_of_people
-- Memories by namespace, thread or id, in any state but purged.
select {memory.columns} from memory m
where (m.namespace = any(:places) or m.thread = any(:threads) or m.id = any(:ids))
  and (m.state <> 'deleted' or coalesce(m.reason, '') <> 'purged')
-- name: memory_metadata_like
-- Metadata of memories that match a pattern.
select m.id, m.metadata from memory m where m.id > :after and m.metadata like :mark order by m.id limit :limit
