-- name: link_leaving
-- Links out of some memories, each with the memory that it leads to. Only storage/links.py joins the parts below.
select {link.columns}, m.id, m.title, m.namespace, m.state, m.content_hash
from link l join memory m on m.id = l.target where l.state = 'live' and l.source = any(:ids)
-- name: link_entering
-- Links into some memories, each with the memory that it comes from.
select {link.columns}, m.id, m.title, m.namespace, m.state, m.content_hash
from link l join memory m on m.id = l.source where l.state = 'live' and l.target = any(:ids)
-- name: link_at
-- Links at one memory, either way, each with the memory at its other end.
select {link.columns}, m.id, m.title, m.namespace, m.state, m.content_hash
from link l join memory m on m.id = case when l.source = :end then l.target else l.source end
where l.state = 'live' and (l.source = :end or l.target = :end)
-- name: link.begun
 and l.valid_from <= :holds_at
-- name: link.begun_or_written
-- What held when it was written is not hidden by a clock that lags behind its writer's.
 and (l.valid_from <= :holds_at or l.valid_from <= l.updated_at)
-- name: link.unended
 and (l.valid_until is null or l.valid_until > :holds_at)
-- name: link.observed_by
 and l.agent = any(:observers)
-- name: link.of
 and l.relation = any(:relations)
-- name: link.begun_since
 and l.valid_from >= :begun_since
-- name: link.begun_until
 and l.valid_from <= :begun_until
-- name: link.in_order
 order by l.valid_from, l.created_at, l.id limit :limit offset :skip
-- name: entity_named
-- Entities by one of their names; only storage/memories.py decides who sees them.
select {memory.columns} from memory m
where m.kind = 'entity' and m.id in (select a.entity from alias a where a.folded = :folded and a.state = 'live')
-- name: entity.newest_first
 order by m.created_at desc, m.id desc limit :limit
-- name: standard_some
select {standard.columns} from standard s where s.state = 'live' and s.id = any(:ids)
