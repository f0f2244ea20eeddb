-- name: gist_add
-- The numbers of a text: there are always four of them.
insert into memory_gist (band, memory) values (:band_0, :memory), (:band_1, :memory), (:band_2, :memory), (:band_3, :memory)
on conflict (band, memory) do nothing
-- name: gist_drop
delete from memory_gist where band = :band and memory = :memory
-- name: gist_sharing
-- Who shares a text's numbers, once for each that is shared: of each number the newest few.
select * from (select memory from memory_gist where band = :band_0 order by memory desc limit :most) as g0
union all select * from (select memory from memory_gist where band = :band_1 order by memory desc limit :most) as g1
union all select * from (select memory from memory_gist where band = :band_2 order by memory desc limit :most) as g2
union all select * from (select memory from memory_gist where band = :band_3 order by memory desc limit :most) as g3
-- name: restated_add
insert into restated (memory, times, restated_at) values (:memory, 1, :now)
on conflict (memory) do update set times = restated.times + 1, restated_at = excluded.restated_at
-- name: restated_of
select memory, times from restated where memory = any(:ids)
-- name: restated_total
select cast(coalesce(sum(r.times), 0) as bigint) from restated r join memory m on m.id = r.memory where true
-- name: restated_purged
delete from restated where memory = :id
-- name: memory_parsed
select {memory.columns}, m.parsed from memory m where true
