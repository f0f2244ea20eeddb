-- name: imported_statement_memories
-- Which memory ids exist, in any state.
select id from memory where id = any(:ids)
