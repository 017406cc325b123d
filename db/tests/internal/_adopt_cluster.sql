begin;
select no_plan();

select is(queue._adopt_cluster(), false, 'In the cluster it knows nothing happens');
select is_empty($$ select from queue.audit $$, 'and nothing is recorded');

-- As after a restore: transaction ids of another cluster, far ahead of this one, two of them not
-- counted yet.
insert into queue.job_events (at, xid, job_id, attempt, fence, event, to_status, queue, kind)
select now(), xid::xid8, 1, 0, 0, 'enqueued', 'queued', 'dump', 'dump'
from unnest('{8000000000,8000000001,8000000002,8000000003}'::text[]) as xid;
update queue.steps set cursor = '8000000001:8000000003:8000000001' where step = 'roll_up';
update queue.settings set system_identifier = 1;
create temp table cursors as
select concat_ws(
  '/', (pg_control_system()).system_identifier, '8000000001:8000000003:8000000001'
) as cursor;

select is(queue._adopt_cluster(), true, 'In another it takes over');
select results_eq(
  $$
    select system_identifier = (pg_control_system()).system_identifier,
      adopted_event_id = (select max(id) from queue.job_events)
    from queue.settings
  $$,
  $$ values (true, true) $$,
  'It knows this cluster, and up to which event the dump went'
);
select results_eq(
  $$ select sum(events)::integer from queue.rollups where grain = 'ever' and queue = 'dump' $$,
  $$ values (2) $$,
  'Events that came uncounted are counted'
);
select is(
  (select cursor from queue.steps where step = 'roll_up'), queue._snapshot()::text,
  'The counters go on from here'
);
select results_eq(
  $$ select action from queue.audit $$, $$ values ('adopt_cluster') $$, 'The audit says so'
);
select is(queue._adopt_cluster(), false, 'It takes over once');
select results_eq(
  $$ select job_id from queue.read_events('start') $$, $$ values (1::bigint), (1), (1), (1) $$,
  'Followers get what came with the dump from the start'
);
select results_eq(
  $$ select counted::integer, more from queue.roll_up() $$, $$ values (0, false) $$,
  'Nothing is counted twice'
);

-- The last to commit before the dump was open when the cursor was taken: nothing has a later id.
insert into queue.job_events (at, xid, job_id, attempt, fence, event, to_status, queue, kind)
values (now(), '9000000001', 2, 0, 0, 'enqueued', 'queued', 'late', 'dump');
update queue.steps set cursor = '9000000001:9000000003:9000000001' where step = 'roll_up';
update queue.settings set system_identifier = 1;
select is(queue._adopt_cluster(), true, 'A second restore is noticed');
select results_eq(
  $$
    select queue, sum(events)::integer from queue.rollups where grain = 'ever' group by 1 order by 1
  $$,
  $$ values ('dump', 2), ('late', 1) $$,
  'What committed late is counted too, and nothing twice'
);

select * from finish();
rollback;
