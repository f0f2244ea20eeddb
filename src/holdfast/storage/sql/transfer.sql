-- name: transfer.page
-- The memories of an export, a page at a time, by id.
 and m.state <> 'deleted' and m.id > :after order by m.id limit :limit
-- name: transfer_used
-- An imported memory that its last use keeps alive beyond its end.
update memory set lives_until = :until, shown = id where id = :id and state = 'live' and lives_until < :until
-- name: notice_get
select id from notice where id = :id
-- name: transfer_unjournalled
-- Rows that no journal entry tells of.
select 'memory', id from memory where not exists (select 1 from journal j where j.record = memory.id)
union all select 'link', id from link where not exists (select 1 from journal j where j.record = link.id)
union all select 'alias', id from alias where not exists (select 1 from journal j where j.record = alias.id)
union all select 'memory_grant', id from memory_grant
  where not exists (select 1 from journal j where j.record = memory_grant.id)
union all select 'standard', id from standard where not exists (select 1 from journal j where j.record = standard.id)
union all select 'agent', id from agent where not exists (select 1 from journal j where j.record = agent.id)
limit :limit
-- name: transfer_states
-- How many memories are in each state; of the live ones, how many have expired.
select case when state = 'live' and lives_until <= :now then 'expired' else state end, count(*) from memory
group by case when state = 'live' and lives_until <= :now then 'expired' else state end
-- name: transfer_counts
select 'links', count(*) from link where state = 'live'
union all select 'aliases', count(*) from alias where state = 'live'
union all select 'grants', count(*) from memory_grant where state = 'live'
union all select 'standards', count(*) from standard where state = 'live'
union all select 'agents', count(*) from agent where state = 'live'
union all select 'notices', count(*) from notice
union all select 'keys', count(*) from api_key where revoked_at is null
