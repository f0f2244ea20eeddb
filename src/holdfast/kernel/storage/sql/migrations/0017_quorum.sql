-- Changes that somebody here does not want, by a digest of what was said and signed: another change of that name is none.
create table dropped (
  digest text primary key,
  origin text not null,
  n integer not null,
  reason text not null,
  dropped_at integer not null,
  dropped_by text not null
);
-- Changes of this store that too few others have acknowledged so far.
create table unreplicated (
  seq integer primary key,
  origin text not null,
  n integer not null,
  kind text not null,
  record text not null,
  since integer not null
);
-- What a peer that speaks as ai-memory does said last of a memory, and which version here that became.
create table told (
  memory text primary key,
  peer text not null,
  version integer not null,
  updated_at integer not null
);
