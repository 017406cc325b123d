begin;
select no_plan();

update queue.steps set cursor = pg_current_snapshot()::text where step = 'roll_up';
select is(queue._has_uncounted_events(), false, 'Without events there is nothing to count');
select queue_tests.enqueue_one('k');
select is(
  queue._has_uncounted_events(), true,
  'An event since the counters moved is to be counted, one''s own too'
);
update queue.steps
set cursor = (
  select format('%s:%s:', xid, xid)
  from (select pg_current_xact_id()::text::bigint + 1) as next (xid)
)
where step = 'roll_up';
select is(queue._has_uncounted_events(), false, 'When the counters are behind it, it is not');

insert into queue.job_events (at, xid, job_id, attempt, fence, event, to_status, queue, kind)
select
  now(), pg_current_xact_id()::text::bigint::text::xid8, 1, 0, 0, 'enqueued', 'queued', 'default',
  'dump';
update queue.steps set cursor = '3:3:' where step = 'roll_up';
update queue.settings set adopted_event_id = (select max(id) from queue.job_events);
select is(queue._has_uncounted_events(), false, 'What came with a dump is counted already');

select * from finish();
rollback;
