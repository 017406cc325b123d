-- queue.check_password: what a password is compared with, unless too many were wrong
--
-- Returns one row: the account's password hash, null when there is no such account, it is disabled or has no password
-- (compare with some hash all the same: an answer must take as long). RL429 after 5 failures within a quarter of an
-- hour for an account from an address, or 50 from an address; the hint says when to try again. The caller reports a
-- wrong password with record_sign_in_failure.
create or replace function queue.check_password(account text, address text)
returns table (password_hash text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := clock_timestamp();
  -- As record_sign_in_failure keeps it: what is longer, or none, counts all the same.
  v_address text := left(coalesce(check_password.address, ''), 128);
  v_of_account integer;
  v_of_address integer;
  v_last timestamptz;
begin
  select
    count(*) filter (where failure.account = check_password.account)::integer,
    count(*)::integer,
    max(failure.at)
  into v_of_account, v_of_address, v_last
  from (
      select recent.account, recent.at
      from queue.sign_in_failures as recent
      where recent.address = v_address
        and recent.at > v_now - interval '15 minutes'
      order by recent.at desc
      limit 1000
    ) as failure;

  if v_of_account >= 5 or v_of_address >= 50 then
    raise exception 'too many wrong passwords'
      using errcode = 'RL429',
        hint = format(
          'Try again in %s seconds.',
          ceil(extract(epoch from v_last + interval '15 minutes' - v_now))
        );
  end if;

  return query
    select (
      select known.password_hash
      from queue.accounts as known
      where known.account = check_password.account
        and known.disabled_at is null
    );
end;
$$;

comment on function queue.check_password is 'What a password is compared with, unless too many were wrong';
grant execute on function queue.check_password to queue_web;
