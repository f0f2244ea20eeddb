-- That somebody is to be forgotten, with all that was written before a moment: by a digest of the name. Journalled.
create table erasure (
  id text primary key,
  ordered_at integer not null,
  agent text not null,
  heard text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);

-- Up to when it was forgotten, whenever that was done here.
alter table forgotten add column ordered_at integer not null default 0;
update forgotten set ordered_at = at;
