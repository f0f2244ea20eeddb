-- Names of people and agents that stand for others: one person, whatever a channel calls them.
create table principal (
  id text primary key,
  name text not null,
  stands_for text,
  display text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);
create index principal_stands_for on principal (stands_for) where stands_for is not null;
