-- queue._secret: 256 random bits as text, from the server's cryptographic source
create or replace function queue._secret()
returns text
language sql
volatile
as $$
  select encode(
    sha256(
      uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
    ),
    'hex'
  );
$$;

comment on function queue._secret is '256 random bits as text';
