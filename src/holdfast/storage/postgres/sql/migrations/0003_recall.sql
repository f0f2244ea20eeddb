-- A vector of each passage: from which character to which of the content; -1: of the title.
alter table embedding add column begins bigint not null default 0;
alter table embedding add column ends bigint not null default 0;
update embedding e set ends = length(m.content) from memory m where m.id = e.memory;
alter table embedding drop constraint embedding_pkey;
alter table embedding add primary key (memory, model, begins);
