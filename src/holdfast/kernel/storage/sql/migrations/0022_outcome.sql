-- How things went: what lessons stand on. Of this store alone; the lessons themselves are memories.
create table outcome (
  id text primary key,
  at integer not null,
  principal text not null,
  agent text not null,
  namespace text not null,
  domain text not null,
  score integer not null check (score in (-1, 0, 1)),
  what text not null,
  source text not null,
  lesson text
);
create index outcome_of on outcome (principal, at);
create index outcome_in on outcome (namespace, domain, at);
create index outcome_lesson on outcome (lesson) where lesson is not null;
