-- A vector of each passage: from which character to which of the content; -1: of the title; -2: of the end of what it
-- replies to and all of itself.
alter table embedding rename to embedding_before;
drop index embedding_model;
create table embedding (
  memory text not null references memory (id),
  model text not null,
  begins integer not null,
  ends integer not null,
  dim integer not null,
  text_hash text not null,
  made_at integer not null,
  vector blob not null,
  primary key (memory, model, begins)
);
create index embedding_model on embedding (model, dim);
-- The signs of a vector's numbers, by which the nearest are looked for. The number grows with every one that is added.
create table embedding_sign (
  number integer primary key autoincrement,
  rowno integer not null,
  memory text not null,
  model text not null,
  begins integer not null,
  signs blob not null
);
create unique index embedding_sign_of on embedding_sign (memory, model, begins);
create trigger embedding_added after insert on embedding when new.begins > -2 begin
  insert into embedding_sign (rowno, memory, model, begins, signs)
  select m.rowno, new.memory, new.model, new.begins, signs_of(new.vector) from memory m where m.id = new.memory;
end;
create trigger embedding_changed after update on embedding begin
  delete from embedding_sign where memory = old.memory and model = old.model and begins = old.begins;
  insert into embedding_sign (rowno, memory, model, begins, signs)
  select m.rowno, new.memory, new.model, new.begins, signs_of(new.vector) from memory m
  where m.id = new.memory and new.begins > -2;
end;
create trigger embedding_dropped after delete on embedding begin
  delete from embedding_sign where memory = old.memory and model = old.model and begins = old.begins;
end;
insert into embedding (memory, model, begins, ends, dim, text_hash, made_at, vector)
select e.memory, e.model, 0, length(m.content), e.dim, e.text_hash, e.made_at, e.vector
from embedding_before e join memory m on m.id = e.memory;
drop table embedding_before;

-- Pairs of characters are found as tags are.
drop trigger memory_text_added;
drop trigger memory_text_changed;
drop view memory_indexed;
create view memory_indexed as
select rowno, title, content, tags || ' ' || spelled as tags from memory where state <> 'deleted';
create trigger memory_text_added after insert on memory when new.state <> 'deleted' begin
  insert into memory_text (rowid, title, content, tags)
  values (new.rowno, new.title, new.content, new.tags || ' ' || new.spelled);
end;
create trigger memory_text_changed after update of title, content, tags, spelled, state on memory
when (new.state = 'deleted') <> (old.state = 'deleted') or new.title <> old.title or new.content <> old.content
  or new.tags <> old.tags or new.spelled <> old.spelled begin
  insert into memory_text (memory_text, rowid, title, content, tags)
  select 'delete', old.rowno, old.title, old.content, old.tags || ' ' || old.spelled where old.state <> 'deleted';
  insert into memory_text (rowid, title, content, tags)
  select new.rowno, new.title, new.content, new.tags || ' ' || new.spelled where new.state <> 'deleted';
end;
