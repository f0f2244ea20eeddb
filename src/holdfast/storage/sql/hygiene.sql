-- name: gist_add
insert into memory_gist (band, memory, exact) values (:band, :memory, :exact) on conflict (band, memory) do nothing
-- name: gist_drop
delete from memory_gist where band = :band and memory = :memory
-- name: gist_sharing
-- Who is kept under one of a text's numbers, the newest few of each; and who says the very same, if many came since.
select * from (select g.memory from (
  select memory, exact from memory_gist where band = :band_0 order by memory desc limit :depth) as g
  where g.exact = :exact limit :most) as same
union all select * from (select memory from memory_gist where band = :band_0 order by memory desc limit :most) as g0
union all select * from (select memory from memory_gist where band = :band_1 order by memory desc limit :most) as g1
union all select * from (select memory from memory_gist where band = :band_2 order by memory desc limit :most) as g2
union all select * from (select memory from memory_gist where band = :band_3 order by memory desc limit :most) as g3
union all select * from (select memory from memory_gist where band = :band_4 order by memory desc limit :most) as g4
union all select * from (select memory from memory_gist where band = :band_5 order by memory desc limit :most) as g5
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
