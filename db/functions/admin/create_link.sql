-- queue.create_link: a secret that signs an account in once, within lifetime (1 s to 7 days)
create or replace function queue.create_link(account text, lifetime interval default '10 minutes')
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_secret text := queue._secret();
begin
  perform queue._require_writable();
  perform queue._check_account(create_link.account, true);
  if exists (
    select from queue.accounts as account
    where account.account = create_link.account
      and account.disabled_at is not null
  ) then
    raise exception 'account % is disabled', create_link.account
      using errcode = 'RL409', hint = 'set_account(account, disabled => false) lets it in again.';
  end if;
  perform queue._check_span('lifetime', create_link.lifetime, '1 second', '7 days');

  insert into queue.sign_in_links (digest, account, expires_at)
  values (
    queue._digest(v_secret),
    create_link.account,
    clock_timestamp() + coalesce(create_link.lifetime, '10 minutes')
  );

  perform queue._record_action(
    'create_link', null, null, jsonb_build_object('account', create_link.account)
  );
  return v_secret;
end;
$$;

comment on function queue.create_link is 'A secret that signs an account in once';
grant execute on function queue.create_link to queue_admin;
