-- Up to where the journal was folded: below it stays the newest entry of each record. Signed by the node.
create table floor (
  node text primary key,
  seq integer not null,
  hash blob not null,
  kept_at integer not null,
  folded_at integer not null,
  dropped integer not null,
  kept blob not null,
  signature blob not null
);
-- The cells of a record whose changes were folded, beside what the entry at `seq` says: all others before that are gone.
create table folded (
  record text not null,
  kind text not null,
  seq integer not null,
  cells text,
  digest blob not null,
  primary key (record, kind)
);
-- Up to which number the changes of an origin are here without each being in the journal, and since which place.
create table base (
  origin text not null,
  n integer not null,
  mark text not null,
  seq integer not null,
  primary key (origin, n)
);
create index base_seq on base (seq);
