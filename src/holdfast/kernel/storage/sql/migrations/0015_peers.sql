-- Other stores that this one exchanges with, as somebody here enrolled them; no other store ever says so.
create table peer (
  name text primary key,
  node text not null unique,
  public_key blob not null,
  url text,
  tell text not null,
  take text not null,
  admin integer not null,
  fingerprint text,
  enrolled_at integer not null
);
-- Numbers that peers used in signed requests, as long as one of that time may come again.
create table peer_nonce (
  node text not null,
  nonce text not null,
  at integer not null,
  primary key (node, nonce)
);
create index peer_nonce_at on peer_nonce (at);
-- To whom a journal was followed under which patterns: under others it is read again from its beginning.
alter table followed add column scope text not null default '';
