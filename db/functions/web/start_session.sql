-- queue.start_session: an account whose password was right gets a session
--
-- Returns the secret for its cookie, once; only its digest is kept. A session ends after 30 minutes without a request,
-- after 12 hours, at sign-out, and when the account's password or role changes. RL404 when the account is unknown or
-- disabled.
create or replace function queue.start_session(
  account text,
  address text default null,
  agent text default null
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_secret text := queue._secret();
begin
  delete from queue.sessions as session
  where session.digest in (
    select old.digest
    from queue.sessions as old
    where old.started_at < v_now - interval '12 hours'
      or old.seen_at < v_now - interval '30 minutes'
    limit 100
    for update skip locked
  );

  insert into queue.sessions (digest, account, started_at, seen_at, address, agent)
  select
    queue._digest(v_secret), known.account, v_now, v_now, left(start_session.address, 128),
    left(start_session.agent, 300)
  from queue.accounts as known
  where known.account = start_session.account
    and known.disabled_at is null;

  if not found then
    raise exception 'there is no account %', coalesce(start_session.account, 'null')
      using errcode = 'RL404', hint = 'It is unknown or disabled.';
  end if;

  return v_secret;
end;
$$;

comment on function queue.start_session is 'A session for an account whose password was right';
grant execute on function queue.start_session to queue_web;
