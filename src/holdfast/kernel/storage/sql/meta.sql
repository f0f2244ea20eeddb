-- name: meta_put
insert into meta (name, body) values (:name, :body) on conflict (name) do update set body = excluded.body
-- name: meta_list
select name, body from meta order by name
-- name: migration_list
select number, checksum from migration order by number
-- name: migration_add
insert into migration (number, name, checksum, applied_at) values (:number, :name, :checksum, :applied_at)
-- name: meta_get
select body from meta where name = :name
