-- A vector of each passage: from which character to which of the content; -1: of the title; -2: of the end of what it
-- replies to and all of itself, by which nothing is looked for.
alter table embedding add column begins bigint not null default 0;
alter table embedding add column ends bigint not null default 0;
update embedding e set ends = length(m.content) from memory m where m.id = e.memory;
alter table embedding drop constraint embedding_pkey;
alter table embedding add primary key (memory, model, begins);
drop index embedding_384, embedding_512, embedding_768, embedding_1024, embedding_1536;
create index embedding_384 on embedding using hnsw ((vector::vector(384)) vector_cosine_ops) where dim = 384 and begins > -2;
create index embedding_512 on embedding using hnsw ((vector::vector(512)) vector_cosine_ops) where dim = 512 and begins > -2;
create index embedding_768 on embedding using hnsw ((vector::vector(768)) vector_cosine_ops) where dim = 768 and begins > -2;
create index embedding_1024 on embedding using hnsw ((vector::vector(1024)) vector_cosine_ops) where dim = 1024 and begins > -2;
create index embedding_1536 on embedding using hnsw ((vector::vector(1536)) vector_cosine_ops) where dim = 1536 and begins > -2;
