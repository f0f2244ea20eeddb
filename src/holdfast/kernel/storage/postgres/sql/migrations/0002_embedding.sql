-- A column of pgvector's type holds any number of dimensions, an index one: these are the common ones.
alter table embedding drop column vector;
alter table embedding add column vector vector not null;
create index embedding_384 on embedding using hnsw ((vector::vector(384)) vector_cosine_ops) where dim = 384;
create index embedding_512 on embedding using hnsw ((vector::vector(512)) vector_cosine_ops) where dim = 512;
create index embedding_768 on embedding using hnsw ((vector::vector(768)) vector_cosine_ops) where dim = 768;
create index embedding_1024 on embedding using hnsw ((vector::vector(1024)) vector_cosine_ops) where dim = 1024;
create index embedding_1536 on embedding using hnsw ((vector::vector(1536)) vector_cosine_ops) where dim = 1536;
