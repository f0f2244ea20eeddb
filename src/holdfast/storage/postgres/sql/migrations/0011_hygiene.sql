-- Numbers that memories of one namespace share if they say nearly the same. Of this store alone, never journalled.
create table memory_gist (band bigint not null, memory text collate "C" not null, primary key (band, memory));
