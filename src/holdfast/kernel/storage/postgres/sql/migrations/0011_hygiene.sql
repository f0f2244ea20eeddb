-- By which number nearly equal memories of one namespace are found, and which one only equal ones share. Of this store alone,
-- never journalled.
create table memory_gist (band bigint not null, memory text collate "C" not null, exact bigint not null, primary key (band, memory));
