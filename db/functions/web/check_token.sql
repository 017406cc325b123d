-- queue.check_token: which token a secret is and what it may do; no row when it is unknown, expired or revoked
create or replace function queue.check_token(secret text)
returns table (id bigint, name text, role text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_used_at timestamptz;
begin
  select token.id, token.name, token.role, token.used_at
  into check_token.id, check_token.name, check_token.role, v_used_at
  from queue.tokens as token
  where token.digest = queue._digest(check_token.secret)
    and token.revoked_at is null
    and (token.expires_at is null or token.expires_at > v_now);

  if not found then
    return;
  end if;

  if coalesce(v_used_at < v_now - interval '1 minute', true)
    and not current_setting('transaction_read_only')::boolean
  then
    update queue.tokens as token
    set used_at = v_now
    where token.id = check_token.id;
  end if;

  return next;
end;
$$;

comment on function queue.check_token is 'Which token a secret is; no row when it is none';
grant execute on function queue.check_token to queue_web;
