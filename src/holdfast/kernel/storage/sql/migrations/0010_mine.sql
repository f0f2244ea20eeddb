-- What was taken from elsewhere, so that it is not taken twice: which memory a message or note became, and what it said then.
-- A key is a digest of where it goes and where it comes from; no text is kept here.
create table mined (
  key text primary key,
  memory text not null,
  route text not null,
  said text,
  digest text not null,
  text_digest text not null
);
create index mined_said on mined (said) where said is not null;
