-- Who was forgotten: a digest of each name, when, and how much there was. No word of what it was.
create table forgotten (
  id text primary key,
  at integer not null,
  agent text not null,
  counts text not null
);
