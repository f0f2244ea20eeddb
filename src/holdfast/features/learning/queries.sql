-- name: outcome.of_agent
 and (t.agent = :agent or t.principal = any(:mine))
-- name: outcome.of_principal
 and t.principal = any(:principals)
-- name: outcome.in
 and t.namespace = :namespace
-- name: outcome.domain
 and t.domain = :domain
-- name: outcome.since
 and t.at >= :since
-- name: outcome.current
 and t.archived_at is null
-- name: outcome.without_lesson
 and t.lesson is null
-- name: outcome.page
 order by t.at desc, t.id desc limit :limit
-- name: outcome_archive
update outcome set archived_at = :now where id in (
  select o.id from (select c.id, row_number() over (partition by c.principal order by c.at desc, c.id desc) as nth
    from outcome c where c.archived_at is null) o where o.nth > :keep) returning id
-- name: outcome_delete
delete from outcome where archived_at <= :before returning id
-- name: outcome_set_lesson
update outcome set lesson = :lesson where id = any(:ids)
