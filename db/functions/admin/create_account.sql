-- queue.create_account: somebody may sign in to the dashboard
--
-- role is viewer, operator or admin. password_hash is what the dashboard made of the password; null leaves sign-in
-- links alone. RL409 when the account exists.
create or replace function queue.create_account(
  account text,
  role text,
  password_hash text default null,
  reason text default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform queue._require_writable();
  perform queue._check_account(create_account.account, false);
  perform queue._check_role(create_account.role, '{viewer,operator,admin}');
  perform queue._check_password_hash(create_account.password_hash);

  insert into queue.accounts as known (account, role, password_hash)
  values (create_account.account, create_account.role, create_account.password_hash)
  on conflict do nothing;

  if not found then
    raise exception 'account % exists', create_account.account
      using errcode = 'RL409', hint = 'set_account changes its role or password.';
  end if;

  perform queue._record_action(
    'create_account',
    null,
    create_account.reason,
    jsonb_build_object('account', create_account.account, 'role', create_account.role)
  );
end;
$$;

comment on function queue.create_account is 'Somebody may sign in to the dashboard';
grant execute on function queue.create_account to queue_admin;
