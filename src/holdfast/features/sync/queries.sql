-- name: replica_list
select origin, public_key, node from replica order by origin
-- name: replica_add
insert into replica (origin, public_key, node, learned_at) values (:origin, :public_key, :node, :now)
on conflict (origin) do nothing
-- name: version_vector_list
select origin, n from version_vector order by origin
-- name: version_vector_put
insert into version_vector (origin, n) values (:origin, :n) on conflict (origin) do update set n = excluded.n
-- name: contiguous_upto
-- The highest number up to which all changes of an origin are here, starting after a number.
select coalesce(max(g.n), :after) from (
  select j.n, row_number() over (order by j.n) as place from journal j where j.origin = :origin and j.n > :after) g
where g.n = :after + g.place
-- name: own_numbers
select s.origin, coalesce((select max(j.n) from journal j where j.origin = s.origin), 0) from signer s order by s.origin
-- name: change_known
select n from journal where origin = :origin and n = any(:numbers)
-- name: change_mark
select at, op, kind, record from journal where origin = :origin and n = :n
-- name: change_feed
-- Journal entries after a sequence number, as they are sent; the last column says whether earlier ones were compacted.
select j.seq, j.batch, j.origin, j.n, j.at, j.actor, j.op, j.kind, j.record, j.about, j.body, j.delta, r.signature,
  r.digest, r.exact_body,
  case when j.seq <= f.seq then 1 else 0 end
from journal j left join remote_change r on r.origin = j.origin and r.n = j.n
left join compacted_record f on f.record = j.record and f.kind = j.kind
where j.seq > :after order by j.seq limit :limit
-- name: remote_change_add
insert into remote_change (origin, n, signature, digest, exact_body) values (:origin, :n, :signature, :digest, :exact_body)
-- name: remote_change_redact_record
update remote_change set exact_body = null where origin = :origin and n in (
  select j.n from journal j where j.record = :id and j.kind = :kind and j.origin = :origin and j.at <= :at)
-- name: remote_change_redact
update remote_change set exact_body = null where origin = :origin and n = :n
-- name: sync_cursor_get
select seq, scope from sync_cursor where origin = :origin
-- name: sync_cursor_put
insert into sync_cursor (origin, seq, scope, at) values (:origin, :seq, :scope, :now)
on conflict (origin) do update set seq = excluded.seq, scope = excluded.scope, at = excluded.at
-- name: quarantine_put
insert into quarantine (origin, n, reason, detail, change, peer, recorded_at, tried_at, tries)
values (:origin, :n, :reason, :detail, :change, :peer, :now, :now, 1)
on conflict (origin, n) do update set reason = excluded.reason, detail = excluded.detail, change = excluded.change,
  peer = excluded.peer, tried_at = excluded.tried_at, tries = quarantine.tries + 1
-- name: quarantine_drop
delete from quarantine where origin = :origin and n = :n returning n
-- name: quarantine_erase
update quarantine set change = :change where origin = :origin and n = :n
-- name: quarantine_future
select 1 from quarantine where reason = 'future' limit 1
-- name: quarantine_list
select {quarantine.columns} from quarantine q order by recorded_at, origin, n
-- name: quarantine_by_reason
select {quarantine.columns} from quarantine q where reason = any(:reasons)
order by recorded_at, origin, n
-- name: conflict_clear
delete from conflict where record = :record and kind = :kind
-- name: conflict_put
insert into conflict (id, kind, record, about, cell, at, origin, found_at)
values (:id, :kind, :record, :about, :cell, :at, :origin, :now) on conflict (id) do nothing
-- name: conflict_ids
select id from conflict
-- name: conflict_records
select distinct record from conflict where kind = 'memory' and record = any(:ids)
-- name: title_members
-- Live memories with the titles of the given ones, with the columns that decide their title group.
select distinct m.id, m.namespace, m.title, case when m.scope = 'private' then m.agent else '' end, m.visible_as
from memory n join memory m on m.namespace = n.namespace and m.title = n.title
where n.id = any(:ids) and n.state = 'live' and m.state = 'live' and m.collected_at is null order by m.id
-- name: title_at
-- Live memories with one title.
select m.id, m.namespace, m.title, case when m.scope = 'private' then m.agent else '' end, m.visible_as from memory m
where m.namespace = :namespace and m.title = :title and m.state = 'live' and m.collected_at is null order by m.id
-- name: title_hide
update memory set visible_as = null where id = any(:ids)
-- name: title_show
update memory set visible_as = id where id = any(:ids)
-- name: title_set_representative
update memory set visible_as = :visible_as where id = any(:ids)
-- name: title_expired_mates
-- Other memories with the titles of the given expired ones, expired or not.
select distinct m.id from memory n join memory m on m.namespace = n.namespace and m.title = n.title
where n.id = any(:ids) and m.state = 'live' and m.id <> n.id
-- name: title_representatives
-- Representatives of title groups.
select distinct visible_as from memory where state = 'live' and visible_as <> id and visible_as > '' order by visible_as
-- name: title_visible_as
select id, visible_as from memory where id = any(:ids) and visible_as is not null
-- name: title_group_others
-- The other members of the title group that a memory represents.
select id from memory where state = 'live' and visible_as <> id and visible_as = :id order by id
-- name: title_group_of
-- The other members of the title group that a memory represents; or the memory itself, if another represents it.
select id from memory where state = 'live' and visible_as <> id and visible_as = :id
union all
select id from memory where id = :id and state = 'live' and visible_as <> id
-- name: journal_last_body
-- A record on its own: the body of its last change that has one.
select {journal.columns} from journal j where j.record = :record and j.kind = :kind and j.body is not null
order by j.seq desc limit 1
-- name: journal_changes
-- Every change of a record, with its author's exact text where the journal has another.
select {journal.columns}, r.exact_body from journal j left join remote_change r on r.origin = j.origin and r.n = j.n
where j.record = :record and j.kind = :kind order by j.seq
-- name: record_list
-- Every record in the journal.
select distinct j.kind, j.record from journal j order by j.kind, j.record
-- name: conflict.columns
c.id, c.kind, c.record, c.about, c.cell, c.at, c.origin, c.found_at
-- name: conflict_select
-- Conflicts, each with its memory; append filters on the memory.
select {conflict.columns}, m.id, m.namespace, m.title from conflict c join memory m on m.id = c.about where true
-- name: conflict_excess
-- Fields with more concurrent values than are kept.
select record, cell from conflict where kind = 'memory' group by record, cell having count(*) > :most order by record, cell
-- name: conflict_any
select 1 from conflict limit 1
-- name: conflict_select.contents
 and c.kind = 'memory' and c.cell = 'content'
-- name: conflict_select.one
 and c.id = :conflict
-- name: conflict_select.page
 order by c.found_at desc, c.id limit :limit offset :skip
-- name: conflict_count
select count(*) from conflict c join memory m on m.id = c.about where true
-- name: change_by_stamp
-- The author of the change of a record with a stamp.
select actor, op from journal where record = :record and kind = :kind and origin = :origin and at = :at
-- name: title_group_with_self
-- The ids of the title group of a memory, itself included.
select id from memory where id = :id
union
select b.id from memory a join memory b on b.visible_as = a.visible_as where a.id = :id and a.state = 'live' and b.state = 'live'
-- name: title_representative_of
-- The representative of a memory, if it is another one.
select visible_as from memory where id = :id and state = 'live' and visible_as <> id
