-- name: pending_ack_add
-- Mark the own changes among the entries just appended.
insert into sync_pending_ack (seq, origin, n, kind, record, since)
select seq, origin, n, kind, record, :now from journal where seq >= :first and seq <= :last and origin = :origin
-- name: pending_ack_list
select seq, origin, n, kind, record, since from sync_pending_ack where seq >= :first and seq <= :last order by seq
-- name: pending_ack_drop
delete from sync_pending_ack where seq = any(:seqs)
-- name: pending_ack_count
select count(*), min(since) from sync_pending_ack
