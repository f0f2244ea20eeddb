-- What stands on something that fell, and what became of it.
create table invalidation (
  id text primary key,
  -- What fell. It may be unknown here: an export does not carry what was deleted.
  invalidated text not null,
  -- What took its place; the invalidated memory itself if nothing did.
  invalidating text not null,
  dependent text not null references memory (id),
  hop integer not null,
  cause text not null,
  status text not null,
  reason text,
  resolver text,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);
create index invalidation_dependent on invalidation (dependent, status);
create index invalidation_invalidated on invalidation (invalidated);
create index invalidation_newest on invalidation (created_at, id);
-- What ends by itself is looked for when what has expired is collected.
create index memory_ended on memory (valid_until) where valid_until is not null;
create index link_ended on link (valid_until) where valid_until > updated_at;
create index link_begun on link (valid_from) where relation = 'supersedes' and valid_from > updated_at;
