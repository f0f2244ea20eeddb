-- What a namespace allows; what it does not say holds as above it.
create table policy (
  id text primary key,
  rules text not null,
  agent text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);

-- What was asked for and waits until somebody allows it. Of this store alone, never journalled.
create table pending (
  id text primary key,
  operation text not null,
  namespace text not null,
  scope text not null,
  request text not null,
  agent text not null,
  asked_at integer not null,
  status text not null,
  decided_by text,
  decided_at integer,
  reason text
);
create index pending_status on pending (status, id);

-- Sources that were proposed together, so that they are not proposed again. Of this store alone.
create table reflection_offer (
  id text primary key,
  namespace text not null,
  sources text not null,
  offered_at integer not null,
  status text not null
);
