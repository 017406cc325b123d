-- queue.revoke_token: a token is worth nothing from now on; RL404 when there is none. Revoking again changes nothing.
create or replace function queue.revoke_token(id bigint, reason text default null)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform queue._require_writable();

  update queue.tokens as token
  set revoked_at = coalesce(token.revoked_at, clock_timestamp())
  where token.id = revoke_token.id;

  if not found then
    raise exception 'there is no token %', coalesce(revoke_token.id::text, 'null')
      using errcode = 'RL404', hint = 'list_tokens() shows those there are.';
  end if;

  perform queue._record_action(
    'revoke_token', null, revoke_token.reason, jsonb_build_object('id', revoke_token.id)
  );
end;
$$;

comment on function queue.revoke_token is 'A token is worth nothing from now on';
grant execute on function queue.revoke_token to queue_admin;
