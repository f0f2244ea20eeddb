-- name: lease_take
-- The free, the ended and one's own lease is had; another's is not, and no row comes back.
insert into lease (name, owner, ends_at) values (:name, :owner, :ends_at)
on conflict (name) do update set owner = excluded.owner, ends_at = excluded.ends_at
where lease.owner = excluded.owner or lease.ends_at <= :now returning owner
-- name: lease_release
delete from lease where name = :name and owner = :owner
-- name: lease_get
select owner, ends_at from lease where name = :name
