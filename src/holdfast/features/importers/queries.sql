-- name: mined_known
-- What became of some messages, by their keys.
select key, memory, route, said, digest, text_digest from mined where key = any(:keys)
-- name: mined_saying
-- Every way by which a thing that was said once or more in a conversation came here.
select key, memory, route, said, digest, text_digest from mined where said = :said order by key
-- name: mined_there
-- Which of some memories are here, in whatever state.
select id from memory where id = any(:ids)
-- name: mined_put
-- Note what a message became, or what it says now.
insert into mined (key, memory, route, said, digest, text_digest)
values (:key, :memory, :route, :said, :digest, :text_digest)
on conflict (key) do update set memory = excluded.memory, said = excluded.said, digest = excluded.digest,
  text_digest = excluded.text_digest
