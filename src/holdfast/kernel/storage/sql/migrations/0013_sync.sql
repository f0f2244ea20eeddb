-- Who signs for the changes of another store; the first key that was told counts.
create table author (
  origin text primary key,
  public_key blob not null,
  node text not null,
  learnt_at integer not null
);
-- Up to which number the changes of another store are all here.
create table heard (
  origin text primary key,
  n integer not null
);
-- A change of another store, as its author signed it; `said` only where the journal does not hold that word for word.
create table relayed (
  origin text not null,
  n integer not null,
  signature text not null,
  digest text not null,
  said text,
  primary key (origin, n)
);
-- Up to where another store's journal was followed.
create table followed (
  origin text primary key,
  seq integer not null,
  at integer not null
);
-- Changes that could not be taken, each with the reason.
create table quarantine (
  origin text not null,
  n integer not null,
  reason text not null,
  detail text not null,
  change text not null,
  peer text not null,
  kept_at integer not null,
  tried_at integer not null,
  tries integer not null,
  primary key (origin, n)
);
-- Values that nobody has knowingly replaced and that do not show.
create table conflict (
  id text primary key,
  kind text not null,
  record text not null,
  about text,
  cell text not null,
  at integer not null,
  origin text not null,
  found_at integer not null
);
create index conflict_record on conflict (record);
create index conflict_about on conflict (about);
-- A title is held once by what everybody may see, and once by the private memories of each agent: only other stores
-- make a title shared, and what is private is never shown as one with what is not.
drop index memory_title;
create unique index memory_title on memory (namespace, title, (case when scope = 'private' then agent else '' end))
where state = 'live' and shown = id;
create index memory_shared on memory (shown) where state = 'live' and shown <> id;
