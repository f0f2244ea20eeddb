-- name: transfer.page
-- One page of exported memories, by id.
 and m.state <> 'deleted' and m.id > :after order by m.id limit :limit
-- name: transfer_extend_life
-- Extend the lifetime of an imported memory that was used recently.
update memory set lives_until = :until, visible_as = id, collected_at = null
where id = :id and state = 'live' and lives_until < :until
-- name: notice_get
select id from notice where id = :id
-- name: transfer_states
-- Memories per state; expired live ones are counted apart.
select case when state = 'live' and lives_until <= :now then 'expired' else state end, count(*) from memory
group by case when state = 'live' and lives_until <= :now then 'expired' else state end
-- name: transfer_counts
select 'links', count(*) from link where state = 'live'
union all select 'aliases', count(*) from alias where state = 'live'
union all select 'grants', count(*) from memory_grant where state = 'live'
union all select 'standards', count(*) from standard where state = 'live'
union all select 'agents', count(*) from agent where state = 'live'
union all select 'policies', count(*) from policy where state = 'live'
union all select 'invalidations', count(*) from invalidation where state = 'live'
union all select 'skills', count(*) from skill where state = 'live'
union all select 'notices', count(*) from notice
union all select 'keys', count(*) from api_key where revoked_at is null
