-- Who hears of changes at which address. Of this store alone, never journalled: the place is one of this journal.
create table subscription (
  id text primary key,
  agent text not null,
  reach text not null,
  key_id text,
  url text not null,
  events text not null,
  namespace text,
  by_agent text,
  secret text not null,
  state text not null check (state in ('active', 'ended')),
  why text,
  place integer not null,
  ready_at integer not null,
  owner text,
  token integer not null,
  held_until integer not null,
  delivered integer not null,
  dead integer not null,
  last_error text,
  last_at integer,
  created_at integer not null,
  updated_at integer not null
);
create index subscription_of on subscription (agent, created_at);
create index subscription_ready on subscription (ready_at) where state = 'active';

-- What became of each event; those that wait come before what follows in the journal.
create table delivery (
  subscription text not null references subscription (id),
  seq integer not null,
  event text not null,
  record text not null,
  state text not null check (state in ('waiting', 'delivered', 'dead')),
  attempts integer not null,
  status integer,
  error text,
  at integer not null,
  number integer not null,
  primary key (subscription, seq)
);
create index delivery_waiting on delivery (subscription, seq) where state = 'waiting';
create index delivery_number on delivery (subscription, number);
