-- name: lsh_band_add
insert into lsh_band (band, memory, exact) values (:band, :memory, :exact), (:exact, :memory, :exact)
on conflict (band, memory) do nothing
-- name: lsh_band_drop
delete from lsh_band where band = any(:bands) and memory = :memory
-- name: lsh_band_matches
-- Memories with identical text (same = 1) and those that share a MinHash band, the newest few of each. Rows written by older
-- versions have no entry under the exact hash; they are found through band_0.
select * from (select memory, 1 as same from lsh_band where band = :exact order by memory desc limit :most) as now
union all select * from (select g.memory, 1 from (
  select memory, exact from lsh_band where band = :band_0 order by memory desc limit :depth) as g
  where g.exact = :exact limit :most) as before
union all select * from (select memory, 0 from lsh_band where band = :band_0 order by memory desc limit :most) as g0
union all select * from (select memory, 0 from lsh_band where band = :band_1 order by memory desc limit :most) as g1
union all select * from (select memory, 0 from lsh_band where band = :band_2 order by memory desc limit :most) as g2
union all select * from (select memory, 0 from lsh_band where band = :band_3 order by memory desc limit :most) as g3
union all select * from (select memory, 0 from lsh_band where band = :band_4 order by memory desc limit :most) as g4
union all select * from (select memory, 0 from lsh_band where band = :band_5 order by memory desc limit :most) as g5
-- name: memory.same_text
 and m.id in (select memory from lsh_band where band = :exact
  union all select memory from lsh_band where band = :band and exact = :exact)
-- name: duplicate_count_add
insert into duplicate_count (memory, times, last_at) values (:memory, 1, :now)
on conflict (memory) do update set times = duplicate_count.times + 1, last_at = excluded.last_at
-- name: duplicate_count_of
select memory, times from duplicate_count where memory = any(:ids)
-- name: duplicate_count_total
select cast(coalesce(sum(r.times), 0) as bigint) from duplicate_count r join memory m on m.id = r.memory where true
-- name: duplicate_count_drop
delete from duplicate_count where memory = :id
-- name: memory_index_terms
select {memory.columns}, m.index_terms from memory m where true
