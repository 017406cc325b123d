-- queue._check_account: RL400 unless a value can name an account, RL404 unless there is one
create or replace function queue._check_account(p_account text, p_must_exist boolean)
returns void
language plpgsql
stable
as $$
begin
  if p_account is null or p_account !~ '^[a-z0-9][a-z0-9_.@+-]{0,127}$' then
    raise exception 'account % is not a name', coalesce(quote_literal(left(p_account, 80)), 'null')
      using errcode = 'RL400',
        hint = 'account is 1 to 128 characters of a-z, 0-9, _ . @ + - and starts with a letter or a digit.';
  end if;

  if p_must_exist
    and not exists (select from queue.accounts as account where account.account = p_account)
  then
    raise exception 'there is no account %', p_account
      using errcode = 'RL404', hint = 'list_accounts() shows those there are.';
  end if;
end;
$$;

comment on function queue._check_account is 'RL400 unless this can name an account, RL404 unless it exists';
