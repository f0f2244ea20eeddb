-- How often somebody wanted to keep what a memory says already. Of this store alone, never journalled.
create table restated (
  memory text primary key references memory (id),
  times integer not null,
  restated_at integer not null
);
