-- name: engine_mark
-- The mark of a finished or unfinished store.
pragma application_id
-- name: engine_mark_finished
-- Marks the destination of a copy as a store.
pragma application_id = 0x484F4C44
-- name: memory_text_clear
insert into memory_text (memory_text) values ('delete-all')
-- name: memory_sync_rowno
-- Nothing to do: new row numbers follow the greatest.
select 1
