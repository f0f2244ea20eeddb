-- name: compaction_point_get
select node, seq, hash, recorded_at, compacted_at, removed_entries, remaining_sum, signature from compaction_point
-- name: compaction_point_clear
delete from compaction_point
-- name: compaction_point_put
insert into compaction_point (node, seq, hash, recorded_at, compacted_at, removed_entries, remaining_sum, signature)
values (:node, :seq, :hash, :recorded_at, :compacted_at, :removed_entries, :remaining_sum, :signature)
-- name: compacted_record_get
select seq, field_versions, digest from compacted_record where record = :record and kind = :kind
-- name: compacted_record_page
select record, kind, seq, field_versions, digest from compacted_record where record > :record or (record = :record and kind > :kind)
order by record, kind limit :limit
-- name: compacted_record_put
insert into compacted_record (record, kind, seq, field_versions, digest) values (:record, :kind, :seq, :field_versions, :digest)
on conflict (record, kind) do update set seq = excluded.seq, field_versions = excluded.field_versions, digest = excluded.digest
-- name: compacted_record_purge
-- Erases the content of a purged record; the digest remains.
update compacted_record set field_versions = null where record = :id and kind = :kind
-- name: baseline_list
select origin, n, mark, seq from baseline order by seq, origin, n
-- name: baseline_mark
select mark from baseline where origin = :origin and n = :n
-- name: baseline_put
insert into baseline (origin, n, mark, seq) values (:origin, :n, :mark, :seq) on conflict (origin, n) do nothing
-- name: baseline_drop
delete from baseline where origin = :origin and n < :n and seq <= :seq
-- name: baseline_contiguous_upto
-- Highest number of an origin's changes without a gap after a number, up to a journal sequence.
select coalesce(max(g.n), :after) from (
  select j.n, row_number() over (order by j.n) as place from journal j
  where j.origin = :origin and j.n > :after and j.seq <= :upto) g
where g.n = :after + g.place
-- name: compaction_window
-- Entries after a sequence, without content.
select j.seq, j.origin, j.n, j.batch, j.at, j.recorded_at, j.actor, j.op, j.kind, j.record, j.about, null,
  null, j.digest, j.hash
from journal j where j.seq > :after and j.seq <= :upto and j.recorded_at < :before order by j.seq limit :limit
-- name: compaction_drop_entries
delete from journal where record = :record and kind = :kind and seq < :newest
-- name: compaction_drop_signatures
delete from remote_change where origin = :origin and n = any(:numbers)
-- name: compaction_count_older
select count(*) from journal where seq > :after and recorded_at < :before
-- name: journal_size
select count(*), coalesce(sum(length(body)), 0) + coalesce(sum(length(delta)), 0)
  + (select coalesce(sum(length(field_versions)), 0) from compacted_record) from journal
-- name: fork_own_changes
-- Changes of an origin after a number.
select {journal.columns} from journal j where j.origin = :origin and j.n > :after order by j.seq
-- name: fork_entries_from
select {journal.columns} from journal j where j.seq >= :first order by j.seq
-- name: fork_rewrite_entry
update journal set origin = :origin, n = :n, op = :op, delta = :delta, digest = :digest, hash = :hash where seq = :seq
-- name: fork_visible_as
select visible_as from memory where id = :id
-- name: journal_head_repair
update journal_head set n = :n, hash = :hash, signature = :signature where node = :node
-- name: signer_since
update signer set since = :since where origin = :origin
-- name: sync_cursor_clear
delete from sync_cursor
