-- name: quarantine_page
-- Quarantined changes, newest first, with their total.
select origin, n, reason, detail, change, peer, recorded_at, tried_at, tries, count(*) over () from quarantine
order by recorded_at desc, origin, n limit :limit offset :skip
-- name: quarantine_any
select 1 from quarantine limit 1
-- name: quarantine_names
select origin, n from quarantine order by recorded_at, origin, n
-- name: quarantine_get
select origin, n, reason, detail, change, peer, recorded_at, tried_at, tries from quarantine where origin = :origin and n = :n
-- name: dropped_put
insert into quarantine_dropped (digest, origin, n, reason, dropped_at, dropped_by)
values (:digest, :origin, :n, :reason, :now, :agent) on conflict (digest) do nothing
-- name: dropped_list
select digest from quarantine_dropped
