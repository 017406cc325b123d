-- queue._digest: what is kept of a secret
create or replace function queue._digest(p_secret text)
returns bytea
language sql
immutable
as $$ select sha256(convert_to(p_secret, 'UTF8')) $$;

comment on function queue._digest is 'What is kept of a secret';
