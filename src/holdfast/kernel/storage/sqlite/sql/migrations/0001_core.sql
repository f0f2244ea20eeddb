create view memory_indexed as select rowno, title, content, tags from memory where state <> 'deleted';
create virtual table memory_text using fts5 (
  title, content, tags, content = 'memory_indexed', content_rowid = 'rowno', tokenize = 'porter unicode61'
);
insert into memory_text (memory_text, rank) values ('rank', 'bm25(2.0, 1.0, 1.5)');
create virtual table memory_vocab using fts5vocab (memory_text, row);

create trigger memory_text_added after insert on memory when new.state <> 'deleted' begin
  insert into memory_text (rowid, title, content, tags) values (new.rowno, new.title, new.content, new.tags);
end;
create trigger memory_text_changed after update of title, content, tags, state on memory
when (new.state = 'deleted') <> (old.state = 'deleted')
  or new.title <> old.title or new.content <> old.content or new.tags <> old.tags begin
  insert into memory_text (memory_text, rowid, title, content, tags)
  select 'delete', old.rowno, old.title, old.content, old.tags where old.state <> 'deleted';
  insert into memory_text (rowid, title, content, tags)
  select new.rowno, new.title, new.content, new.tags where new.state <> 'deleted';
end;
