-- A key longer than a third of a page does not fit into a tree; a source's address is asked for as a whole.
drop index memory_uri;
create index memory_uri on memory using hash (source_uri) where source_uri is not null;

-- The words of every memory that is not deleted: FTS5's tokens, so that both engines find the same. Kept in the row as
-- long as that can be, for a score reads them once for each word that is asked for.
create table memory_text (
  rowno bigint primary key references memory (rowno),
  words tsvector not null
) with (toast_tuple_target = 8160);
-- No pending list: a search would have to read it from end to end.
create index memory_text_words on memory_text using gin (words) with (fastupdate = off);

-- The node's private key, apart from what it signs, for whoever may read this table.
create table node_key (
  only_one boolean primary key default true check (only_one),
  secret bytea not null,
  -- Its second half, by which whoever may read no secret can still verify.
  public_key bytea generated always as (substring(secret from 33)) stored
);

-- Who listens is told of a new head when it is committed.
create function chain_moved() returns trigger language plpgsql as $$
begin
  perform pg_notify('holdfast_' || TG_RELID, new.seq::text);
  return null;
end
$$;
create trigger chain_moved after update of hash on chain for each row execute function chain_moved();
