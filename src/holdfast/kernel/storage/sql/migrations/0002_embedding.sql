-- What memories are near to, by whatever model a caller used. Of this store alone, never journalled.
create table embedding (
  memory text not null references memory (id),
  model text not null,
  dim integer not null,
  -- The memory's content_hash when this was made: if it has another by now, this is stale.
  text_hash text not null,
  made_at integer not null,
  vector blob not null,
  primary key (memory, model)
);
create index embedding_model on embedding (model, dim);
