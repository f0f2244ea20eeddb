-- What models took, as agents say it: tokens by kind, and what they cost by the price of the day. Of this store alone.
create table usage (
  id text primary key,
  at integer not null,
  day integer not null,
  principal text not null,
  agent text not null,
  session text not null,
  model text not null,
  input_tokens integer not null,
  output_tokens integer not null,
  cache_read_tokens integer not null,
  cache_write_tokens integer not null,
  cost integer,
  currency text,
  state text not null check (state in ('kept', 'reserved')),
  ends_at integer,
  unique_key text
);
create index usage_day on usage (day, principal, model);
create index usage_session on usage (session, day);
create unique index usage_key on usage (agent, unique_key) where unique_key is not null;

-- What a million tokens of each kind cost from a day on, in millionths of the currency's unit.
create table price (
  model text not null,
  since integer not null,
  currency text not null,
  input integer,
  output integer,
  cache_read integer,
  cache_write integer,
  set_by text not null,
  set_at integer not null,
  primary key (model, since)
);

-- The most that may be spent in a period.
create table budget (
  id text primary key,
  principal text not null,
  model text not null,
  period text not null check (period in ('day', 'month')),
  tokens integer,
  cost integer,
  currency text,
  set_by text not null,
  set_at integer not null
);
