-- What a session of an agent's host was given, so that nothing is given twice. Of this store alone, never journalled.
create table hook_session (
  id text primary key,
  seen_at integer not null,
  turns integer not null,
  given text not null,
  tools text not null,
  said text not null
);
create index hook_session_seen_at on hook_session (seen_at);
