-- queue.list_accounts: who may sign in to the dashboard
create or replace function queue.list_accounts()
returns table (
  account text,
  role text,
  has_password boolean,
  created_at timestamptz,
  disabled_at timestamptz,
  sessions integer,
  seen_at timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    select
      known.account, known.role, known.password_hash is not null, known.created_at,
      known.disabled_at, count(session.digest)::integer, max(session.seen_at)
    from queue.accounts as known
      left join queue.sessions as session
        on session.account = known.account
        and session.seen_at > clock_timestamp() - interval '30 minutes'
    group by known.account
    order by known.account;
end;
$$;

comment on function queue.list_accounts is 'Who may sign in to the dashboard';
grant execute on function queue.list_accounts to queue_admin;
