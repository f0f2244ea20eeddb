-- The signs of 1,024 numbers in one value, so that a process that begins reads a thousand values instead of a million rows.
-- What is gone since stands beside them, until a block is packed anew: when an eighth of it is gone, or something was purged.
create table embedding_pack (
  block integer not null,
  model text not null,
  size integer not null,
  packed blob not null,
  primary key (block, model, size)
);
create table embedding_gone (
  number integer primary key
);
create trigger embedding_sign_added after insert on embedding_sign when new.number % 1024 = 0 begin
  insert into embedding_pack (block, model, size, packed)
  select new.number / 1024 - 1, model, length(signs), signs_packed(number, rowno, signs) from embedding_sign
  where number > new.number - 1024 and number <= new.number group by model, length(signs);
end;
create trigger embedding_sign_dropped after delete on embedding_sign
when exists (select 1 from embedding_pack where block = (old.number - 1) / 1024) begin
  insert into embedding_gone (number) values (old.number);
end;
-- What is put in here packs blocks anew of which at least so many signs are gone, but not more than so many blocks.
create view embedding_repack as select 0 as least, 0 as most;
create trigger embedding_repacked instead of insert on embedding_repack begin
  delete from embedding_pack where block in (select (number - 1) / 1024 from embedding_gone
    group by 1 having count(*) >= new.least order by 1 limit new.most);
  insert into embedding_pack (block, model, size, packed)
  select g.block, s.model, length(s.signs), signs_packed(s.number, s.rowno, s.signs)
  from (select (number - 1) / 1024 as block from embedding_gone
    group by 1 having count(*) >= new.least order by 1 limit new.most) g
  cross join embedding_sign s on s.number > g.block * 1024 and s.number <= g.block * 1024 + 1024
  group by g.block, s.model, length(s.signs);
  delete from embedding_gone where (number - 1) / 1024 in (select (number - 1) / 1024 from embedding_gone
    group by 1 having count(*) >= new.least order by 1 limit new.most);
end;
create trigger embedding_sign_worn after insert on embedding_sign when new.number % 128 = 0 begin
  insert into embedding_repack (least, most) values (128, 16);
end;
insert into embedding_pack (block, model, size, packed)
select (number - 1) / 1024, model, length(signs), signs_packed(number, rowno, signs) from embedding_sign
where number <= (select seq / 1024 * 1024 from sqlite_sequence where name = 'embedding_sign')
group by 1, model, length(signs);
