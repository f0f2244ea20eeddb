-- A version of a skill, named by what it says.
create table skill (
  id text primary key,
  namespace text not null,
  name text not null,
  description text not null,
  manifest text not null,
  digest text not null,
  -- Which version is the one to use: at most one of a name.
  current integer not null,
  signature text,
  agent text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);
create unique index skill_current on skill (namespace, name) where current = 1 and state = 'live';
create unique index skill_digest on skill (namespace, name, digest);

-- The files of a skill, SKILL.md among them, compressed.
create table skill_file (
  skill text not null references skill (id),
  path text not null,
  kind text not null,
  size integer not null,
  digest text not null,
  content blob not null,
  primary key (skill, path)
);
