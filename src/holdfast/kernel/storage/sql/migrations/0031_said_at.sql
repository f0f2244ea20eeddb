-- What was said at a time that a question names.
create index memory_said on memory (coalesce(occurred_at, created_at), id);
