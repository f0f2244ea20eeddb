-- name: quarantine.columns
q.origin, q.n, q.reason, q.detail, q.change, q.peer, q.recorded_at, q.tried_at, q.tries,
(select p.name from peer p where p.node = q.peer)
-- name: quarantine_page
-- Quarantined changes, newest first, with their total.
select {quarantine.columns}, count(*) over () from quarantine q
order by recorded_at desc, origin, n limit :limit offset :skip
-- name: quarantine_any
select 1 from quarantine limit 1
-- name: quarantine_names
select origin, n from quarantine order by recorded_at, origin, n
-- name: quarantine_get
select {quarantine.columns} from quarantine q where origin = :origin and n = :n
-- name: dropped_put
insert into quarantine_dropped (digest, origin, n, reason, dropped_at, dropped_by)
values (:digest, :origin, :n, :reason, :now, :agent) on conflict (digest) do nothing
-- name: dropped_list
select digest from quarantine_dropped
