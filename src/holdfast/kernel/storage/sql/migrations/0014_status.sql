-- What another store said of itself when it was last heard.
create table peer_seen (
  node text primary key,
  origin text not null,
  seq integer not null,
  followed integer not null,
  numbers text not null,
  release text not null,
  unknown text not null,
  ahead integer not null,
  at integer not null
);
-- How the exchanges with a server went.
create table peer_link (
  address text primary key,
  node text,
  tried_at integer not null,
  succeeded_at integer,
  failed_at integer,
  error text,
  failures integer not null,
  pulled integer not null,
  pushed integer not null,
  conflicts integer not null
);
