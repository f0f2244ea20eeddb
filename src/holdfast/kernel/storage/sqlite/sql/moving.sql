-- name: engine_mark
-- By which a store, and an unfinished one, is known.
pragma application_id
-- name: engine_finished
-- What a store was moved into is a store from now on.
pragma application_id = 0x484F4C44
-- name: memory_text_emptied
insert into memory_text (memory_text) values ('delete-all')
-- name: memory_numbered
-- A new row's number follows the greatest by itself.
select 1
