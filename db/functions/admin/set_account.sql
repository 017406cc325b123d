-- queue.set_account: changes an account's role or password, or disables or enables it
--
-- Null leaves as it is. Any change ends the account's sessions and sign-in links. RL404 when there is no such account.
create or replace function queue.set_account(
  account text,
  role text default null,
  password_hash text default null,
  disabled boolean default null,
  reason text default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform queue._require_writable();
  perform queue._check_account(set_account.account, true);
  perform queue._check_password_hash(set_account.password_hash);
  if set_account.role is not null then
    perform queue._check_role(set_account.role, '{viewer,operator,admin}');
  end if;

  if num_nonnulls(set_account.role, set_account.password_hash, set_account.disabled) = 0 then
    return;
  end if;

  update queue.accounts as known
  set role = coalesce(set_account.role, known.role),
      password_hash = coalesce(set_account.password_hash, known.password_hash),
      disabled_at = case
        when set_account.disabled then coalesce(known.disabled_at, clock_timestamp())
        when set_account.disabled is null then known.disabled_at
      end
  where known.account = set_account.account;

  -- The links first: whoever is redeeming one is waited for, and the session that comes of it is ended, too.
  delete from queue.sign_in_links as link
  where link.account = set_account.account;

  delete from queue.sessions as session
  where session.account = set_account.account;

  perform queue._record_action(
    'set_account',
    null,
    set_account.reason,
    jsonb_build_object(
      'account', set_account.account,
      'role', set_account.role,
      'password', case when set_account.password_hash is not null then 'changed' end,
      'disabled', set_account.disabled
    )
  );
end;
$$;

comment on function queue.set_account is 'Changes an account; ends its sessions and links';
grant execute on function queue.set_account to queue_admin;
