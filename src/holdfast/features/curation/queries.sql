-- name: tag_counts
-- Tags and their counts; visibility clauses come from features/memories/store.py.
select x.tag, count(*) from memory_tag x join memory m on m.id = x.memory where true
-- name: tag_counts.most_used
 group by x.tag order by count(*) desc, x.tag limit :limit
-- name: memory.by_title
 and m.title = :title
-- name: memory.after
-- Ordered by id, after a given one.
 and m.id > :after order by m.id limit :limit
-- name: curate_referrers
-- Memories that are granted, standards, sources or part of a supersession, with the reason.
select g.memory, 'granted' from memory_grant g where g.state = 'live' and g.memory = any(:ids)
union select s.memory, 'standard' from standard s where s.state = 'live' and s.memory = any(:ids)
union select l.target, 'ground' from link l where l.target = any(:ids) and l.state = 'live'
  and l.relation in ('reflects_on', 'derived_from', 'derives_from') and (l.valid_until is null or l.valid_until > :now)
union select l.target, 'superseded' from link l where l.target = any(:ids) and l.state = 'live'
  and l.relation = 'supersedes' and (l.valid_until is null or l.valid_until > :now)
union select l.source, 'superseding' from link l where l.source = any(:ids) and l.state = 'live'
  and l.relation = 'supersedes' and (l.valid_until is null or l.valid_until > :now)
-- name: curate_mark.of_step
 and t.step = :step and t.memory = any(:ids)
-- name: curate_run_abandon
-- Only one run is active at a time: any other running one was interrupted.
update curate_run set status = 'broken off' where status = 'running' and id <> :id
-- name: curate_run.page
 and t.id < :before order by t.id desc limit :limit
-- name: curate_proposal.page
-- Newest first, after a given one.
 and t.status = :status and (t.proposed_at, t.id) < (:at, :before) order by t.proposed_at desc, t.id desc limit :limit
-- name: curate_proposal.open_of_run
 and t.run = :run and t.status = 'open'
-- name: curate_not_duplicates
-- Memories that must not be merged with the given ones.
select o.other from curate_proposal o where o.memory = any(:ids) and o.step = 'duplicate' and o.status = 'dismissed'
union select o.memory from curate_proposal o where o.other = any(:ids) and o.step = 'duplicate' and o.status = 'dismissed'
