-- What a skill said once, named by its digest. Never changed.
create table skill_version (
  id text primary key,
  skill text not null,
  namespace text not null,
  name text not null,
  description text not null,
  frontmatter text not null,
  composes text not null,
  files text not null,
  digest text not null,
  signature text not null,
  agent text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);
create unique index skill_version_digest on skill_version (digest);
create index skill_version_skill on skill_version (skill, created_at, id);

-- A name in a namespace has one row, and so one current version.
create table skill (
  id text primary key,
  namespace text not null,
  name text not null,
  current text not null references skill_version (id),
  agent text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);
create unique index skill_name on skill (namespace, name);

-- What files say, by the digest of it, compressed and in pieces: versions share what they have in common.
create table skill_piece (
  digest text not null,
  piece integer not null,
  content blob not null,
  primary key (digest, piece)
);

-- Reflections by where and how deep they are, with all that decides whether they belong to a skill.
create index memory_reflection on memory (namespace, reflection_depth, created_at, id, scope, agent, lives_until, valid_from,
  valid_until)
where kind = 'reflection' and state = 'live';
