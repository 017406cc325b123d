-- queue.record_refusal: what somebody signed in tried and may not do, into the audit under the actor's name
--
-- Called in a transaction of its own, for the one that was refused is rolled back. attempt says what was tried, role as
-- what.
create or replace function queue.record_refusal(attempt text, role text, reason text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform queue._require_writable();
  perform queue._record_action(
    'refused',
    null,
    record_refusal.reason,
    jsonb_build_object(
      'attempt', queue._cut(record_refusal.attempt, 300), 'role', left(record_refusal.role, 80)
    )
  );
end;
$$;

comment on function queue.record_refusal is 'What somebody tried and may not do';
grant execute on function queue.record_refusal to queue_web;
