-- queue.record_sign_in_failure: a wrong password counts against its account and address for a quarter of an hour
create or replace function queue.record_sign_in_failure(account text, address text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queue._transition_time();
begin
  -- At most 100 old rows a call: as fast as they come, and bounded.
  delete from queue.sign_in_failures as failure
  where failure.id in (
    select old.id
    from queue.sign_in_failures as old
    where old.at < v_now - interval '15 minutes'
    order by old.id
    limit 100
    for update skip locked
  );

  insert into queue.sign_in_failures (at, account, address)
  values (
    v_now,
    left(coalesce(record_sign_in_failure.account, ''), 128),
    left(coalesce(record_sign_in_failure.address, ''), 128)
  );

  perform queue._record_action(
    'sign_in_failed',
    null,
    null,
    jsonb_build_object(
      'account', left(record_sign_in_failure.account, 128),
      'address', left(record_sign_in_failure.address, 128)
    )
  );
end;
$$;

comment on function queue.record_sign_in_failure is 'Counts a wrong password for the throttle';
grant execute on function queue.record_sign_in_failure to queue_web;
