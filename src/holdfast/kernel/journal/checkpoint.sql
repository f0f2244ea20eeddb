-- name: compaction_point_get
select node, seq, hash, kept_at, folded_at, dropped, kept, signature from floor
-- name: compaction_point_clear
delete from floor
-- name: compaction_point_put
insert into floor (node, seq, hash, kept_at, folded_at, dropped, kept, signature)
values (:node, :seq, :hash, :kept_at, :folded_at, :dropped, :kept, :signature)
-- name: compacted_record_get
select seq, cells, digest from folded where record = :record and kind = :kind
-- name: compacted_record_page
select record, kind, seq, cells, digest from folded where record > :record or (record = :record and kind > :kind)
order by record, kind limit :limit
-- name: compacted_record_put
insert into folded (record, kind, seq, cells, digest) values (:record, :kind, :seq, :cells, :digest)
on conflict (record, kind) do update set seq = excluded.seq, cells = excluded.cells, digest = excluded.digest
-- name: compacted_record_purge
-- Erases the content of a purged record; the digest remains.
update folded set cells = null where record = :id and kind = :kind
-- name: baseline_list
select origin, n, mark, seq from base order by seq, origin, n
-- name: baseline_mark
select mark from base where origin = :origin and n = :n
-- name: baseline_put
insert into base (origin, n, mark, seq) values (:origin, :n, :mark, :seq) on conflict (origin, n) do nothing
-- name: baseline_drop
delete from base where origin = :origin and n < :n and seq <= :seq
-- name: baseline_contiguous_upto
-- Highest number of an origin's changes without a gap after a number, up to a journal sequence.
select coalesce(max(g.n), :after) from (
  select j.n, row_number() over (order by j.n) as place from journal j
  where j.origin = :origin and j.n > :after and j.seq <= :upto) g
where g.n = :after + g.place
-- name: compaction_window
-- Entries after a sequence, without content.
select j.seq, j.origin, j.n, j.batch, j.at, j.kept_at, j.actor, j.op, j.kind, j.record, j.about, null,
  null, j.digest, j.hash
from journal j where j.seq > :after and j.seq <= :upto and j.kept_at < :before order by j.seq limit :limit
-- name: compaction_drop_entries
delete from journal where record = :record and kind = :kind and seq < :newest
-- name: compaction_drop_signatures
delete from relayed where origin = :origin and n = any(:numbers)
-- name: compaction_count_older
select count(*) from journal where seq > :after and kept_at < :before
-- name: journal_size
select count(*), coalesce(sum(length(body)), 0) + coalesce(sum(length(delta)), 0)
  + (select coalesce(sum(length(cells)), 0) from folded) from journal
-- name: fork_own_changes
-- Changes of an origin after a number.
select {journal.columns} from journal j where j.origin = :origin and j.n > :after order by j.seq
-- name: fork_entries_from
select {journal.columns} from journal j where j.seq >= :first order by j.seq
-- name: fork_rewrite_entry
update journal set origin = :origin, n = :n, op = :op, delta = :delta, digest = :digest, hash = :hash where seq = :seq
-- name: fork_visible_as
select shown from memory where id = :id
-- name: chain_repair
update chain set n = :n, hash = :hash, signature = :signature where node = :node
-- name: signer_since
update signer set since = :since where origin = :origin
-- name: sync_cursor_clear
delete from followed
