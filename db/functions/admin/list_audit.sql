-- queue.list_audit: operator actions that concern no single job, newest first, from before the cursor (an id); max_rows
-- from 1 to 1,000
create or replace function queue.list_audit(cursor bigint default null, max_rows integer default 100)
returns table (
  id bigint,
  at timestamptz,
  action text,
  queue text,
  actor text,
  session_user_name text,
  reason text,
  detail jsonb
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform queue._check_number('max_rows', list_audit.max_rows, 1, 1000);

  return query
    select
      entry.id, entry.at, entry.action, entry.queue, entry.actor, entry.session_user_name,
      entry.reason, entry.detail
    from queue.audit as entry
    where entry.id < coalesce(list_audit.cursor, 9223372036854775807)
    order by entry.id desc
    limit list_audit.max_rows;
end;
$$;

comment on function queue.list_audit is 'Operator actions that concern no single job, newest first';
grant execute on function queue.list_audit to queue_admin;
