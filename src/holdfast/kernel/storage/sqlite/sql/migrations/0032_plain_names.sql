
-- Indexes cannot be renamed here.
drop index memory_strand;
create index memory_thread_key on memory (thread_key, position, rowno) where thread_key is not null and state = 'live';
drop index memory_shared;
create index memory_visible_as on memory (visible_as) where state = 'live' and visible_as <> id;
drop index memory_said;
create index memory_time on memory (coalesce(occurred_at, created_at), id);
drop index base_seq;
create index baseline_seq on baseline (seq);
drop index mined_said;
create index imported_statement_utterance on imported_statement (utterance_digest) where utterance_digest is not null;
drop index curate_done_memory;
create index curate_mark_memory on curate_mark (memory);
drop index curate_offer_status;
create index curate_proposal_status on curate_proposal (status, proposed_at, id);
drop index curate_offer_run;
create index curate_proposal_run on curate_proposal (run);
drop index curate_offer_memory;
create index curate_proposal_memory on curate_proposal (memory);
drop index curate_offer_other;
create index curate_proposal_other on curate_proposal (other) where other is not null;
drop index interaction_kept;
create index interaction_created on interaction (created_at, id) where state = 'live';

-- The binary index: one bit per number of a vector, in rows and in packed blocks.
drop trigger embedding_added;
drop trigger embedding_changed;
drop trigger embedding_dropped;
drop trigger embedding_sign_added;
drop trigger embedding_sign_dropped;
drop trigger embedding_sign_worn;
drop trigger embedding_repacked;
drop view embedding_repack;
alter table embedding_sign rename to binary_index;
alter table embedding_pack rename to binary_index_pack;
alter table embedding_gone rename to embedding_removed;
alter table binary_index rename column signs to bits;
drop index embedding_sign_of;
create unique index binary_index_key on binary_index (memory, model, begins);
create trigger embedding_added after insert on embedding when new.begins > -2 begin
  insert into binary_index (rowno, memory, model, begins, bits)
  select m.rowno, new.memory, new.model, new.begins, signs_of(new.vector) from memory m where m.id = new.memory;
end;
create trigger embedding_changed after update on embedding begin
  delete from binary_index where memory = old.memory and model = old.model and begins = old.begins;
  insert into binary_index (rowno, memory, model, begins, bits)
  select m.rowno, new.memory, new.model, new.begins, signs_of(new.vector) from memory m
  where m.id = new.memory and new.begins > -2;
end;
create trigger embedding_deleted after delete on embedding begin
  delete from binary_index where memory = old.memory and model = old.model and begins = old.begins;
end;
create trigger binary_index_added after insert on binary_index when new.number % 1024 = 0 begin
  insert into binary_index_pack (block, model, size, packed)
  select new.number / 1024 - 1, model, length(bits), signs_packed(number, rowno, bits) from binary_index
  where number > new.number - 1024 and number <= new.number group by model, length(bits);
end;
create trigger binary_index_deleted after delete on binary_index
when exists (select 1 from binary_index_pack where block = (old.number - 1) / 1024) begin
  insert into embedding_removed (number) values (old.number);
end;
-- An insert here packs blocks again of which at least `least` rows were deleted, at most `most` blocks.
create view binary_index_repack as select 0 as least, 0 as most;
create trigger binary_index_repacked instead of insert on binary_index_repack begin
  delete from binary_index_pack where block in (select (number - 1) / 1024 from embedding_removed
    group by 1 having count(*) >= new.least order by 1 limit new.most);
  insert into binary_index_pack (block, model, size, packed)
  select g.block, s.model, length(s.bits), signs_packed(s.number, s.rowno, s.bits)
  from (select (number - 1) / 1024 as block from embedding_removed
    group by 1 having count(*) >= new.least order by 1 limit new.most) g
  cross join binary_index s on s.number > g.block * 1024 and s.number <= g.block * 1024 + 1024
  group by g.block, s.model, length(s.bits);
  delete from embedding_removed where (number - 1) / 1024 in (select (number - 1) / 1024 from embedding_removed
    group by 1 having count(*) >= new.least order by 1 limit new.most);
end;
create trigger binary_index_worn after insert on binary_index when new.number % 128 = 0 begin
  insert into binary_index_repack (least, most) values (128, 16);
end;
