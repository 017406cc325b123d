-- queue.create_token: a secret for a program that uses the API
--
-- role is producer, worker, viewer, operator or admin; name (1 to 100 characters) is for people; lifetime 1 minute to
-- 10 years, null for no end. The secret is shown this once; its digest is kept.
create or replace function queue.create_token(
  name text,
  role text,
  lifetime interval default '90 days',
  reason text default null
)
returns table (id bigint, secret text, expires_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform queue._require_writable();
  perform queue._check_length('name', coalesce(create_token.name, ''), 100);
  perform queue._check_role(create_token.role, '{producer,worker,viewer,operator,admin}');
  perform queue._check_span('lifetime', create_token.lifetime, '1 minute', '10 years');

  create_token.secret := 'rowlock_' || queue._secret();

  insert into queue.tokens as token (name, role, digest, created_by, expires_at)
  select
    create_token.name, create_token.role, queue._digest(create_token.secret), actor.name,
    clock_timestamp() + create_token.lifetime
  from queue._actor() as actor
  returning token.id, token.expires_at into create_token.id, create_token.expires_at;

  perform queue._record_action(
    'create_token',
    null,
    create_token.reason,
    jsonb_build_object('id', create_token.id, 'name', create_token.name, 'role', create_token.role)
  );
  return next;
end;
$$;

comment on function queue.create_token is 'A secret for a program that uses the API, shown once';
grant execute on function queue.create_token to queue_admin;
