begin;
select no_plan();

select queue_tests.run_one('noted');
create function pg_temp.record(detail jsonb) returns jsonb language sql as $$
  select queue._record_event(job, 'progressed', 'running', clock_timestamp(), 'w', record.detail)
  from queue.jobs as job where job.kind = 'noted';
  select item.detail from queue_tests.job_events as item order by item.id desc limit 1;
$$;

select is(pg_temp.record(null), null, 'Without detail there is none');
select is(pg_temp.record('{}'), null, 'Nor with an empty one');
select is(pg_temp.record('{"reason": null}'), null, 'A null in it says nothing');
select is(
  pg_temp.record('{"reason": null, "error_detail": {"a": null}}'),
  '{"error_detail": {"a": null}}',
  'Further down nulls are somebody''s own'
);
select is(
  (select item.actor from queue_tests.job_events as item order by item.id desc limit 1),
  session_user::text,
  'Who acted is the session''s user'
);

set local rowlock.actor = 'ann@example.com';
select is(
  pg_temp.record('{"a": 1}'),
  jsonb_build_object('a', 1, 'session_user', session_user),
  'An actor that is claimed does not hide the session''s user'
);
select is(
  (select item.actor from queue_tests.job_events as item order by item.id desc limit 1),
  'ann@example.com',
  'It stands in its place'
);
select set_config('rowlock.actor', repeat('a', 10000), true);
select pg_temp.record(null);
select is(
  (select length(item.actor) from queue_tests.job_events as item order by item.id desc limit 1),
  255,
  'It is cut at 255 characters'
);
set local rowlock.actor = '';
select is(pg_temp.record(null), null, 'An empty one claims nothing');

select results_eq(
  $$
    select
      item.job_id, item.queue, item.kind, item.event, item.from_status, item.to_status,
      item.attempt, item.fence,
      item.worker, item.xid = pg_current_xact_id(), item.elapsed
    from queue_tests.job_events as item order by item.id desc limit 1
  $$,
  $$
    select id, 'noted', 'noted', 'progressed', 'running', 'running', 1, 1, 'w', true, null::interval
    from queue_tests.jobs where kind = 'noted'
  $$,
  'The event has the job as it is after the transition, and the transaction that made it'
);

select is(
  (
    select count(distinct item.tableoid)::integer from queue.job_events as item
    where item.tableoid <> 'queue.job_events_default'::regclass
  ),
  1,
  'It lies in the partition of its day'
);
select queue._record_event(job, 'progressed', 'running', timestamptz '2001-01-01Z')
from queue.jobs as job;
select is(
  (select item.tableoid::regclass::text from queue.job_events as item order by item.at limit 1),
  'queue.job_events_default',
  'A day that has none is caught by the default partition'
);

select * from finish();
rollback;
