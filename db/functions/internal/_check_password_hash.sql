-- queue._check_password_hash: RL400 unless a text can be a password's hash; null passes, it means none. Says nothing of
-- the hash.
create or replace function queue._check_password_hash(p_password_hash text)
returns void
language plpgsql
immutable
as $$
begin
  if length(p_password_hash) not between 20 and 500 then
    raise exception 'password_hash has % characters', length(p_password_hash)
      using errcode = 'RL400',
        hint = 'password_hash is a hash of 20 to 500 characters, never the password itself.';
  end if;
end;
$$;

comment on function queue._check_password_hash is 'RL400 unless this can be a password''s hash';
