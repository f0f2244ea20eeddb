-- name: outcome_add
insert into outcome (id, at, principal, agent, namespace, domain, score, what, source, lesson)
values (:id, :at, :principal, :agent, :namespace, :domain, :score, :what, :source, :lesson)
-- name: outcome_select
select o.id, o.at, o.principal, o.agent, o.namespace, o.domain, o.score, o.what, o.source, o.lesson from outcome o where true
-- name: outcome.of_agent
 and (o.agent = :agent or o.principal = any(:mine))
-- name: outcome.of_principal
 and o.principal = any(:principals)
-- name: outcome.in
 and o.namespace = :namespace
-- name: outcome.domain
 and o.domain = :domain
-- name: outcome.since
 and o.at >= :since
-- name: outcome.current
 and o.archived_at is null
-- name: outcome.without_lesson
 and o.lesson is null
-- name: outcome.page
 order by o.at desc, o.id desc limit :limit
-- name: outcome_archive
update outcome set archived_at = :now where id in (
  select o.id from (select c.id, row_number() over (partition by c.principal order by c.at desc, c.id desc) as nth
    from outcome c where c.archived_at is null) o where o.nth > :keep) returning id
-- name: outcome_delete
delete from outcome where archived_at <= :before returning id
-- name: outcome_set_lesson
update outcome set lesson = :lesson where id = any(:ids)
