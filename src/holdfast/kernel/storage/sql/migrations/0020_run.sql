-- Long work in phases, so that it can be taken up where it stood. Of this store alone, never journalled.
create table run (
  id text primary key,
  principal text not null,
  agent text not null,
  namespace text not null,
  topology text not null,
  topology_hash text not null,
  inputs text not null,
  state text not null check (state in ('running', 'completed', 'failed')),
  owner text,
  token integer not null,
  lease_until integer,
  error text,
  created_at integer not null,
  updated_at integer not null
);
create index run_of on run (principal, updated_at);
create index run_by on run (agent, updated_at);

create table run_phase (
  run text not null references run (id),
  name text not null,
  place integer not null,
  state text not null check (state in ('pending', 'in_progress', 'completed', 'failed')),
  attempt integer not null,
  output text,
  error text,
  started_at integer,
  updated_at integer not null,
  primary key (run, name)
);

-- Which session of a provider goes on, for whom and where.
create table provider_session (
  channel text not null,
  principal text not null,
  namespace text not null,
  agent text not null,
  provider text not null,
  session text not null,
  expires_at integer,
  created_at integer not null,
  updated_at integer not null,
  primary key (channel, principal, namespace)
);
create index provider_session_principal on provider_session (principal);
