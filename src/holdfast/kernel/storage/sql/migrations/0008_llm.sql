-- What models answered, for a while, so that the same question is not paid for twice. Of this store alone.
create table llm_answer (
  key text primary key,
  model text not null,
  answer text not null,
  created_at integer not null
);
create index llm_answer_time on llm_answer (created_at, key);

-- What was asked of models and what it took: one row a call. Of this store alone, and without any content.
create table llm_call (
  id text primary key,
  day integer not null,
  agent text not null,
  task text not null,
  model text not null,
  -- What counts against the day's budget: what was reserved, until what it took is known.
  spent integer not null,
  input_tokens integer not null,
  output_tokens integer not null,
  cached_tokens integer not null,
  cost integer not null,
  outcome text not null
);
create index llm_call_day on llm_call (day, spent);
