-- name: engine_mark
-- The mark of a finished or unfinished store.
select obj_description(cast('migration' as regclass), 'pg_class')
-- name: engine_mark_finished
-- Marks the destination of a copy as a store.
comment on table migration is 'A memory of Holdfast.'
-- name: memory_text_clear
delete from memory_text
-- name: memory_sync_rowno
-- New row numbers follow the greatest. The sequence is never lowered, because that would survive a rollback.
select setval(pg_get_serial_sequence('memory', 'rowno'), greatest(
  nextval(pg_get_serial_sequence('memory', 'rowno')), (select coalesce(max(rowno), 1) from memory)))
