-- queue.end_session: signs a browser out; returns whether the session was there
create or replace function queue.end_session(secret text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform queue._require_writable();
  delete from queue.sessions as session
  where session.digest = queue._digest(end_session.secret);
  return found;
end;
$$;

comment on function queue.end_session is 'Signs a browser out';
grant execute on function queue.end_session to queue_web;
