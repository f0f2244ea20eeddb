-- What is to be done at a time. Of this store alone, never journalled: who does it holds a lease of this store.
create table task (
  id text primary key,
  principal text not null,
  agent text not null,
  namespace text not null,
  channel text not null,
  reply_to text not null,
  title text not null,
  kind text not null,
  handler text not null,
  target text not null,
  payload text not null,
  zone text not null,
  first_at integer not null,
  repeat text,
  misfire text not null check (misfire in ('skip', 'once', 'all')),
  due_at integer not null,
  ready_at integer,
  state text not null check (state in ('pending', 'running', 'done', 'failed', 'cancelled')),
  attempts integer not null,
  most_attempts integer not null,
  timeout integer not null,
  owner text,
  token integer not null,
  claimed_at integer,
  cancel_asked integer not null,
  last_error text,
  unique_key text,
  created_at integer not null,
  updated_at integer not null
);
create index task_ready on task (ready_at, id) where ready_at is not null;
create index task_of on task (principal, state, due_at);
create index task_by on task (agent, state, due_at);
create unique index task_key on task (principal, unique_key) where unique_key is not null;

-- What became of each try.
create table task_run (
  id text primary key,
  task text not null references task (id),
  due_at integer not null,
  attempt integer not null,
  owner text not null,
  token integer not null,
  started_at integer not null,
  finished_at integer not null,
  status text not null check (status in ('completed', 'failed', 'lost', 'skipped')),
  final integer not null,
  result text,
  error text,
  tokens integer
);
create index task_run_task on task_run (task, started_at, id);
create unique index task_run_settled on task_run (task, due_at) where final = 1;
