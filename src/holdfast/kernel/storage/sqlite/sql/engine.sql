-- name: engine_integrity
pragma integrity_check(20)
-- name: engine_foreign_keys
pragma foreign_key_check
-- name: engine_text_integrity
insert into memory_text (memory_text, rank) values ('integrity-check', 1)
-- name: memory_text_optimize
-- Removes deleted words from the full-text index now. Slow in a large store.
insert into memory_text (memory_text) values ('optimize')
-- name: full_text_hits
-- Ranked by FTS5's bm25; filters follow before the limit. A cross join, so that no filter makes the planner query the
-- index once per row.
select m.id, -t.rank, m.priority, m.confidence, m.updated_at
from memory_text t cross join memory m on m.rowno = t.rowid where memory_text match :match
-- name: full_text_hits.since_row
 and t.rowid >= :since_row
-- name: full_text_hits.best
order by t.rank limit :limit
-- name: word_document_count
-- Document frequency of a word; filters follow.
select count(*) from memory_text t cross join memory m on m.rowno = t.rowid where memory_text match :match
-- name: word_document_counts
-- Document frequency of each stem.
select term, doc from memory_vocab where term = any(:stems)
-- name: memory_rows
-- Row numbers in one value, which is twice as fast as separate rows. Filters follow.
select json_group_array(n.rowno) from (select m.rowno from memory m where true
-- name: memory_rows.end
 limit :limit) n
