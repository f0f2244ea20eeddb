-- What was asked and what was found, for a while. Of this store alone, never journalled.
create table recall_log (
  id text primary key,
  asked_at integer not null,
  agent text not null,
  -- None if questions are not kept.
  question text,
  -- The hits in their order, each with what its score was made of.
  hits text not null
);
create index recall_log_time on recall_log (asked_at, id);
create index recall_log_agent on recall_log (agent, id);

-- What became of hits. It outlives the recall itself.
create table recall_feedback (
  recall text not null,
  memory text not null references memory (id),
  agent text not null,
  verdict text not null,
  given_at integer not null,
  primary key (recall, memory, agent)
);
create index recall_feedback_memory on recall_feedback (memory, verdict);
