-- name: lease_acquire
-- Acquires a free, ended or own lease; returns no row if another owner has it.
insert into lease (name, owner, ends_at) values (:name, :owner, :ends_at)
on conflict (name) do update set owner = excluded.owner, ends_at = excluded.ends_at
where lease.owner = excluded.owner or lease.ends_at <= :now returning owner
-- name: lease_release
delete from lease where name = :name and owner = :owner
-- name: lease_get
select owner, ends_at from lease where name = :name
