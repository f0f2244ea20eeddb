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
-- name: curate_cursor_get
select place from curate_cursor where id = :id
-- name: curate_cursor_put
insert into curate_cursor (id, place, moved_at) values (:id, :place, :moved_at)
on conflict (id) do update set place = excluded.place, moved_at = excluded.moved_at
-- name: curate_mark_list
select memory, hash from curate_mark where step = :step and memory = any(:ids)
-- name: curate_mark_put
insert into curate_mark (step, memory, hash, done_at) values (:step, :memory, :hash, :done_at)
on conflict (step, memory) do update set hash = excluded.hash, done_at = excluded.done_at
-- name: curate_mark_purge
delete from curate_mark where memory = any(:ids)
-- name: curate_run.columns
r.id, r.agent, r.began_at, r.ended_at, r.status, r.report
-- name: curate_run_add
insert into curate_run (id, agent, began_at, status, report) values (:id, :agent, :began_at, 'running', '{}')
-- name: curate_run_end
update curate_run set ended_at = :ended_at, status = :status, report = :report where id = :id
-- name: curate_run_abandon
-- Only one run is active at a time: any other running one was interrupted.
update curate_run set status = 'broken off' where status = 'running' and id <> :id
-- name: curate_run_status
update curate_run set status = :status where id = :id
-- name: curate_run_get
select {curate_run.columns} from curate_run r where r.id = :id
-- name: curate_run_page
select {curate_run.columns} from curate_run r where r.id < :before order by r.id desc limit :limit
-- name: curate_step_add
insert into curate_step (run, seq, step, memory) values (:run, :seq, :step, :memory)
-- name: curate_step_list
-- Last step first: later steps may depend on earlier ones.
select seq, step, memory from curate_step where run = :run order by seq desc
-- name: curate_step_delete
delete from curate_step where run = :run and seq = :seq
-- name: curate_proposal.columns
o.id, o.run, o.step, o.memory, o.other, o.body, o.agent, o.proposed_at, o.status, o.decided_by, o.decided_at
-- name: curate_proposal_add
insert into curate_proposal (id, run, step, memory, other, body, agent, proposed_at, status)
values (:id, :run, :step, :memory, :other, :body, :agent, :proposed_at, :status) on conflict (id) do nothing returning id
-- name: curate_proposal_get
select {curate_proposal.columns} from curate_proposal o where o.id = :id
-- name: curate_proposal_statuses
select o.id, o.status from curate_proposal o where o.id = any(:ids)
-- name: curate_not_duplicates
-- Memories that must not be merged with the given ones.
select o.other from curate_proposal o where o.memory = any(:ids) and o.step = 'duplicate' and o.status = 'dismissed'
union select o.memory from curate_proposal o where o.other = any(:ids) and o.step = 'duplicate' and o.status = 'dismissed'
-- name: curate_proposal_page
-- Newest first, after a given one.
select {curate_proposal.columns} from curate_proposal o where o.status = :status and (o.proposed_at, o.id) < (:at, :before)
order by o.proposed_at desc, o.id desc limit :limit
-- name: curate_proposal_decide
update curate_proposal set status = :status, decided_by = :decided_by, decided_at = :decided_at
where id = :id and status = 'open' returning id
-- name: curate_proposal_withdraw
update curate_proposal set status = 'withdrawn', decided_by = :decided_by, decided_at = :decided_at
where run = :run and status = 'open' returning id
-- name: curate_proposal_purge
delete from curate_proposal where memory = any(:ids) or other = any(:ids)
