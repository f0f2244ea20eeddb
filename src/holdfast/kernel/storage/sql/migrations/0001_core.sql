create table memory (
  rowno integer primary key,
  id text not null unique,
  namespace text not null,
  title text not null,
  content text not null,
  kind text not null,
  category text,
  tier text not null,
  priority integer not null,
  confidence real not null,
  source text not null,
  scope text not null,
  agent text not null,
  tags text not null,
  metadata text not null,
  citations text not null,
  source_uri text,
  source_span text,
  reflection_depth integer not null,
  valid_from integer,
  valid_until integer,
  speaker text,
  occurred_at integer,
  thread text,
  place integer,
  expires_at integer,
  state text not null,
  reason text,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  extra text not null,
  -- Below: of this store alone, never journalled.
  cells blob not null,
  shown text,
  lives_until integer not null,
  collected_at integer,
  content_hash text not null
);
create unique index memory_title on memory (namespace, title) where state = 'live' and shown = id;
create index memory_titles on memory (namespace, title) where state = 'live';
-- Partial, so that "state = 'live'" is never taken for a selective search: nearly every row is live.
create index memory_order on memory (priority, updated_at, id) where state = 'live';
create index memory_archive on memory (state, updated_at, id) where state = 'archived';
create index memory_namespace on memory (namespace, state, priority, updated_at, id);
create index memory_expiry on memory (lives_until, collected_at) where state = 'live';
create index memory_hash on memory (content_hash);
create index memory_uri on memory (source_uri) where source_uri is not null;

create table memory_tag (
  memory text not null references memory (id),
  tag text not null,
  primary key (memory, tag)
);
create index memory_tag_tag on memory_tag (tag);

create table link (
  id text primary key,
  source text not null references memory (id),
  target text not null references memory (id),
  relation text not null,
  valid_from integer not null,
  valid_until integer,
  agent text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  signature text,
  state text not null,
  cells blob not null
);
create index link_source on link (source, valid_from);
create index link_target on link (target);

create table alias (
  id text primary key,
  entity text not null references memory (id),
  name text not null,
  folded text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);
create index alias_folded on alias (folded);
create index alias_entity on alias (entity);

create table memory_grant (
  id text primary key,
  memory text not null references memory (id),
  agent text not null,
  permission text not null,
  granted_by text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);
create index memory_grant_memory on memory_grant (memory, agent);

create table standard (
  id text primary key,
  memory text not null references memory (id),
  parent text,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);

create table agent (
  id text primary key,
  agent_type text not null,
  capabilities text not null,
  created_at integer not null,
  updated_at integer not null,
  origin text not null,
  version integer not null,
  state text not null,
  cells blob not null
);

create table journal (
  seq integer primary key,
  origin text not null,
  n integer not null,
  batch integer not null,
  at integer not null,
  kept_at integer not null,
  actor text not null,
  op text not null,
  kind text not null,
  record text not null,
  about text,
  body text,
  delta text,
  digest blob not null,
  hash blob not null
);
create unique index journal_origin on journal (origin, n);
create index journal_record on journal (record, seq);
create index journal_actor on journal (actor, seq);

create table chain (
  node text primary key,
  incarnation integer not null,
  origin text not null,
  identity text not null,
  public_key blob not null,
  seq integer not null,
  n integer not null,
  hash blob not null,
  kept_at integer not null,
  signature blob not null
);

create table signer (
  origin text primary key,
  public_key blob not null,
  since integer not null
);

create table access (
  memory text not null references memory (id),
  origin text not null,
  uses integer not null,
  used_at integer not null,
  primary key (memory, origin)
);

create table notice (
  id text primary key,
  sender text not null,
  recipient text not null,
  title text not null,
  body text not null,
  priority integer not null,
  metadata text not null,
  created_at integer not null,
  read_at integer
);
create index notice_recipient on notice (recipient, created_at);

create table api_key (
  id text primary key,
  name text not null,
  hash blob not null unique,
  access_right text not null,
  namespaces text not null,
  agent text not null,
  created_at integer not null,
  revoked_at integer
);

create table kept (
  name text primary key,
  body text not null
);
