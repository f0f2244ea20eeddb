-- name: engine_integrity
pragma integrity_check(20)
-- name: engine_foreign_keys
pragma foreign_key_check
-- name: engine_text_integrity
insert into memory_text (memory_text, rank) values ('integrity-check', 1)
-- name: memory_text_purged
-- The full-text index keeps words of what is gone until it tidies up: let it do so now. Takes a while in a large store.
insert into memory_text (memory_text) values ('optimize')
-- name: memory_found
-- Best first by FTS5's own bm25; filters follow before the limit. A cross join, so that no filter makes the planner ask
-- the index once for each row.
select m.id, -t.rank, m.priority, m.confidence, m.updated_at
from memory_text t cross join memory m on m.rowno = t.rowid where memory_text match :match
-- name: memory_found.since_row
 and t.rowid >= :since_row
-- name: memory_found.best
order by t.rank limit :limit
-- name: word_held
-- In how many memories a word stands; filters follow.
select count(*) from memory_text t cross join memory m on m.rowno = t.rowid where memory_text match :match
-- name: word_counts
-- In how many memories a stem stands.
select term, doc from memory_vocab where term = any(:stems)
-- name: memory_rows
-- The numbers of rows in one value: as rows of an answer they would take twice as long. Filters follow.
select json_group_array(n.rowno) from (select m.rowno from memory m where true
-- name: memory_rows.end
 limit :limit) n
