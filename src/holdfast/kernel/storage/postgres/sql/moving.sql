-- name: engine_mark
-- By which a store, and an unfinished one, is known.
select obj_description(cast('migration' as regclass), 'pg_class')
-- name: engine_finished
-- What a store was moved into is a store from now on.
comment on table migration is 'A memory of Holdfast.'
-- name: memory_text_emptied
delete from memory_text
-- name: memory_numbered
-- A new row's number follows the greatest. It never goes back, for that would outlast a transaction that is undone.
select setval(pg_get_serial_sequence('memory', 'rowno'), greatest(
  nextval(pg_get_serial_sequence('memory', 'rowno')), (select coalesce(max(rowno), 1) from memory)))
