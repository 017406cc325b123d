-- queue.list_tokens: the tokens there are, without their secrets, newest first
create or replace function queue.list_tokens()
returns table (
  id bigint,
  name text,
  role text,
  created_at timestamptz,
  created_by text,
  expires_at timestamptz,
  revoked_at timestamptz,
  used_at timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    select
      token.id, token.name, token.role, token.created_at, token.created_by, token.expires_at,
      token.revoked_at, token.used_at
    from queue.tokens as token
    order by token.id desc
    limit 1000;
end;
$$;

comment on function queue.list_tokens is 'The tokens there are, without their secrets';
grant execute on function queue.list_tokens to queue_admin;
