-- Where a memory stands among what was said before and after it; what of it is written without blanks, in pairs of
-- characters; and its text taken apart for the order of hits. Of this store alone, never journalled.
alter table memory add column strand text;
alter table memory add column spot integer not null default 0;
alter table memory add column spelled text not null default '';
alter table memory add column parsed text not null default '';
update memory set spot = coalesce(place, 0), strand = case
  when thread is not null then 't ' || namespace || ' ' || thread
  when speaker is null then null
  when occurred_at is not null then 'o ' || namespace || ' ' || cast(occurred_at as text)
  else 's ' || namespace end;
create index memory_strand on memory (strand, spot, rowno) where strand is not null and state = 'live';
create index memory_speaker on memory (speaker) where speaker is not null;
