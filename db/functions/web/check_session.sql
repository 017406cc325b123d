-- queue.check_session: whose session this is and what it may do; no row when it has ended
--
-- touch says that somebody did something: a session ends half an hour after that. A page that polls does nothing.
create or replace function queue.check_session(secret text, touch boolean default true)
returns table (account text, role text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_digest bytea := queue._digest(check_session.secret);
  v_seen_at timestamptz;
begin
  select known.account, known.role, session.seen_at
  into check_session.account, check_session.role, v_seen_at
  from queue.sessions as session
    join queue.accounts as known on known.account = session.account
  where session.digest = v_digest
    and session.started_at > v_now - interval '12 hours'
    and session.seen_at > v_now - interval '30 minutes'
    and known.disabled_at is null;

  if not found then
    return;
  end if;

  -- Once a minute is enough, and not on a standby.
  if check_session.touch
    and v_seen_at < v_now - interval '1 minute'
    and not current_setting('transaction_read_only')::boolean
  then
    update queue.sessions as session
    set seen_at = v_now
    where session.digest = v_digest;
  end if;

  return next;
end;
$$;

comment on function queue.check_session is 'Whose session this is; no row when it has ended';
grant execute on function queue.check_session to queue_web;
