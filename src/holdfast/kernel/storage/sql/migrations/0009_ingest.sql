-- Documents that were taken in, each once by one agent and one pipeline. Of this store alone, never journalled.
create table ingest (
  id text primary key,
  namespace text not null,
  source_uri text not null,
  content_hash text not null,
  pipeline text not null,
  pipeline_version text not null,
  agent text not null,
  -- The memory that stands for the document, if anything of it was kept.
  document text,
  -- What the stages found, as JSON.
  stages text not null,
  ingested_at integer not null
);
create index ingest_source on ingest (source_uri, namespace, agent, ingested_at, id);
create index ingest_document on ingest (document) where document is not null;

-- What became of each segment.
create table ingest_segment (
  ingest text not null references ingest (id),
  place integer not null,
  digest text not null,
  decision text not null,
  memory text,
  other text,
  replaces integer not null,
  kind text not null,
  line integer not null,
  begins integer not null,
  ends integer not null,
  reason text not null,
  method text not null,
  model text,
  primary key (ingest, place)
);
create index ingest_segment_memory on ingest_segment (memory) where memory is not null;
