-- Who talks with whom, where, and how far that is summarised. What was said are memories of the thread; this is of this store alone.
create table conversation (
  id text primary key,
  channel text not null,
  principal text not null,
  agent text not null,
  namespace text not null,
  state text not null check (state in ('active', 'closing', 'closed')),
  started_at integer not null,
  last_at integer not null,
  closed_at integer,
  turns integer not null,
  covered integer not null,
  summary text,
  pruned integer not null
);
create unique index conversation_active on conversation (channel, principal, namespace) where state = 'active';
create index conversation_state on conversation (state, last_at);
create index conversation_of on conversation (principal, last_at);
