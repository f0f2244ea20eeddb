-- name: mined_by_keys
-- Import records by key.
select key, memory, route, said, digest, text_digest from mined where key = any(:keys)
-- name: mined_same_utterance
-- All import records of the same utterance.
select key, memory, route, said, digest, text_digest from mined where said = :said order by key
-- name: mined_existing_memories
-- Which memory ids exist, in any state.
select id from memory where id = any(:ids)
-- name: mined_put
-- Insert or update the import record of a message.
insert into mined (key, memory, route, said, digest, text_digest)
values (:key, :memory, :route, :said, :digest, :text_digest)
on conflict (key) do update set memory = excluded.memory, said = excluded.said, digest = excluded.digest,
  text_digest = excluded.text_digest
