-- name: imported_statement_by_keys
-- Import records by key.
select key, memory, route, utterance_digest, digest, text_digest from imported_statement where key = any(:keys)
-- name: imported_statement_same_utterance
-- All import records of the same utterance.
select key, memory, route, utterance_digest, digest, text_digest from imported_statement where utterance_digest = :utterance_digest order by key
-- name: imported_statement_memories
-- Which memory ids exist, in any state.
select id from memory where id = any(:ids)
-- name: imported_statement_put
-- Insert or update the import record of a message.
insert into imported_statement (key, memory, route, utterance_digest, digest, text_digest)
values (:key, :memory, :route, :utterance_digest, :digest, :text_digest)
on conflict (key) do update set memory = excluded.memory, utterance_digest = excluded.utterance_digest, digest = excluded.digest,
  text_digest = excluded.text_digest
