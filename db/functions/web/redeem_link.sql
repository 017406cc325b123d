-- queue.redeem_link: a link signs its account in, once
--
-- Returns the session's secret as start_session does; null when the link is unknown, used or expired.
create or replace function queue.redeem_link(
  secret text,
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
  v_account text;
begin
  delete from queue.sign_in_links as link
  where link.expires_at <= v_now;

  delete from queue.sign_in_links as link
  where link.digest = queue._digest(redeem_link.secret)
  returning link.account into v_account;

  return case
    when v_account is not null
      then queue.start_session(v_account, redeem_link.address, redeem_link.agent)
  end;
end;
$$;

comment on function queue.redeem_link is 'A link signs its account in, once';
grant execute on function queue.redeem_link to queue_web;
