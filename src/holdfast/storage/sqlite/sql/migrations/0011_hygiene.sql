-- Numbers that memories of one namespace share if they say nearly the same. Of this store alone, never journalled.
create table memory_gist (band integer not null, memory text not null, primary key (band, memory)) strict, without rowid;
