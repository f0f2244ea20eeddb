-- Who alone may do something for a while. Of this store alone, never journalled; so is everything below.
create table lease (
  name text primary key,
  owner text not null,
  ends_at integer not null
);

-- What a curator did.
create table curate_run (
  id text primary key,
  agent text not null,
  began_at integer not null,
  ended_at integer,
  status text not null,
  report text not null
);

-- One transaction of a run, by the place of its first change in the journal.
create table curate_step (
  run text not null references curate_run (id),
  seq integer not null,
  step text not null,
  memory text not null,
  primary key (run, seq)
);

-- What was looked at as it is, so that it is not looked at again until it changes.
create table curate_done (
  step text not null,
  memory text not null references memory (id),
  hash text not null,
  done_at integer not null,
  primary key (step, memory)
);
create index curate_done_memory on curate_done (memory);

-- Where the next page begins, by agent and what it curates.
create table curate_cursor (
  id text primary key,
  place text not null,
  moved_at integer not null
);

-- What a curator would do with memories but leaves to somebody to decide.
create table curate_offer (
  id text primary key,
  run text not null,
  step text not null,
  memory text not null references memory (id),
  other text references memory (id),
  body text not null,
  agent text not null,
  offered_at integer not null,
  status text not null,
  decided_by text,
  decided_at integer
);
create index curate_offer_status on curate_offer (status, offered_at, id);
create index curate_offer_run on curate_offer (run);
create index curate_offer_memory on curate_offer (memory);
create index curate_offer_other on curate_offer (other) where other is not null;
