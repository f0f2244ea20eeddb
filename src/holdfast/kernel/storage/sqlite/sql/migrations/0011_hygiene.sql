-- By which number nearly equal memories of one namespace are found, and which one only equal ones share. Of this store alone,
-- never journalled.
create table memory_gist (band integer not null, memory text not null, exact integer not null, primary key (band, memory)) strict, without rowid;
