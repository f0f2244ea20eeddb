-- What agents were asked, and what was decided about it. Journalled.
create table interaction (
  id text primary key,
  namespace text not null,
  agent text not null,
  principal text not null,
  name text not null,
  channel text not null,
  action text not null,
  status text not null check (status in ('ok', 'error', 'denied')),
  reason text not null,
  provider text not null,
  model text not null,
  took_ms integer,
  conversation text not null,
  at integer not null,
  texts text not null check (texts in ('keep', 'hash', 'omit')),
  input text,
  output text,
  input_digest text,
  output_digest text,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);
create index interaction_at on interaction (at, id);
create index interaction_of on interaction (principal, at);
create index interaction_by on interaction (agent, at);
create index interaction_kept on interaction (created_at, id) where state = 'live';

-- Who comes back too late is found at once.
create index task_running on task (ready_at, id) where state = 'running';

-- The turns of a conversation, wherever they are by now.
create index memory_thread on memory (thread, place) where thread is not null;

-- Lessons, however much else a namespace holds.
create index memory_lesson on memory (namespace, state) where kind = 'lesson';

-- When something that is done now and then was last done.
create table last_done (
  name text primary key,
  at integer not null
);
create index conversation_started on conversation (started_at);

-- Outcomes that later ones made less telling: no longer counted, and taken away after a while.
alter table outcome add column archived_at integer;
create index outcome_archived on outcome (archived_at) where archived_at is not null;

-- Steps of getting to know one another that were told to somebody, once each. Of this store alone.
create table onboarding (
  principal text not null,
  step integer not null,
  at integer not null,
  agent text not null,
  primary key (principal, step)
);
