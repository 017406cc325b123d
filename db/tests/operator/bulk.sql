begin;
select no_plan();

-- Ten jobs of a queue fail, two of another.
select queue_tests.enqueue_one('pay', 'billing', max_attempts => 1) from generate_series(1, 10);
select queue_tests.enqueue_one('sync', 'crm', max_attempts => 1) from generate_series(1, 2);
select queue.fail(job_id, fence, 'CardDeclined', 'insufficient funds')
from queue.claim('w', '{billing,crm}', 12);
create temp table failed as select id, kind from queue.jobs where status = 'failed';

select results_eq(
  $$
    select outcome, count(*)::integer from queue.bulk('retry', '{"queue": "billing"}') group by 1
  $$,
  $$ values ('matched', 10) $$,
  'A dry run, the default, lists what matches'
);
select is(
  (select count(*)::integer from queue.jobs where status = 'failed'), 12,
  'A dry run changes nothing'
);

select results_eq(
  $$
    select outcome, note, count(*)::integer
    from queue.bulk(
      'retry', '{"queue": "billing"}', false, 4, '{"extra_attempts": 3}', 'bank is back'
    )
    group by 1, 2
  $$,
  $$ values ('changed', null::text, 4) $$,
  'A call changes at most max_jobs'
);
select is(
  (
    select count(*)::integer
    from queue.jobs
    where queue = 'billing'
      and status = 'queued'
      and max_attempts = 4
  ),
  4,
  'Arguments of retry hold for each job'
);
select results_eq(
  $$
    select item.detail ->> 'reason', count(*)::integer
    from queue.job_events as item
    where item.event = 'retried'
    group by 1
  $$,
  $$ values ('bank is back', 4) $$,
  'Each job has an event of its own with the reason'
);
select is(
  (
    select count(*)::integer
    from queue.bulk('retry', '{"queue": "billing"}', false, 1000, '{"spread": "10 min"}')
  ),
  6,
  'The next call goes on with those that are left'
);
select results_eq(
  $$ select * from queue.bulk('retry', '{"queue": "billing"}', false) $$,
  'values (null::bigint, null::text, null::text, null::text)',
  'When nothing matches any more one row comes, without an id'
);
select ok(
  (
    select count(distinct available_at) = 6
      and max(available_at) < clock_timestamp() + interval '10 min'
      and max(available_at) > min(available_at) + interval '1 min'
    from queue.jobs where queue = 'billing' and max_attempts = 2
  ),
  'spread dates the retries over its time'
);
select is(
  (select count(*)::integer from queue.jobs where queue = 'crm' and status = 'failed'), 2,
  'What the filter does not match is left alone'
);
select is(
  (select detail ->> 'jobs' from queue.audit where action = 'bulk_retry' order by id desc limit 1),
  '6',
  'The audit has the whole action'
);

-- What changed meanwhile --------------------------------------------------------------------------

select results_eq(
  $$
    select outcome, note
    from queue.bulk(
      'cancel', jsonb_build_object('ids', (select jsonb_agg(id) from failed where kind = 'sync')),
      false
    )
  $$,
  $$
    select 'skipped', format('job %s is failed', id) from failed where kind = 'sync' order by id
  $$,
  'A job in another status is skipped, with the reason'
);
select is(
  (select count(*)::integer from queue.bulk('cancel', '{"queue": "billing"}', false)), 10,
  'cancel takes queued and running jobs'
);
select is_empty(
  $$ select from queue.bulk('retry', '{"queue": "billing"}', false) where job_id is not null $$,
  'retry leaves cancelled jobs alone unless asked for'
);
select is(
  (
    select count(*)::integer
    from queue.bulk('retry', '{"queue": "billing", "status": "cancelled"}', false)
  ),
  10,
  'retry takes cancelled jobs when the filter says so'
);
select queue_tests.enqueue_one('later', 'slow', delay => '1 hour') from generate_series(1, 3);
select is(
  (
    select count(*)::integer
    from queue.bulk('run_now', '{"queue": "slow", "label": "scheduled"}', false)
  ),
  3,
  'run_now makes scheduled jobs due'
);
select is(
  (
    select count(*)::integer
    from queue.bulk('reprioritize', '{"queue": "slow"}', false, 1000, '{"priority": 8}')
  ),
  3,
  'reprioritize takes queued jobs'
);
select is_empty(
  $$
    select
    from queue.bulk('reprioritize', '{"queue": "slow"}', false, 1000, '{"priority": 8}')
    where job_id is not null
  $$,
  'A job that has the priority matches no more'
);
select is(
  (select count(*)::integer from queue.bulk('discard', '{"queue": "crm"}', false, reason => 'old')),
  2,
  'discard takes failed jobs'
);
select is_empty('select from queue.jobs where queue = ''crm''', 'Discarded jobs are gone');

-- Bad arguments -----------------------------------------------------------------------------------

select throws_ok(
  $$ select queue.bulk('delete', '{}') $$, 'RL400', null, 'An unknown action is refused'
);
select throws_ok($$ select queue.bulk(null, '{}') $$, 'RL400', null, 'No action is refused');
select throws_ok($$ select queue.bulk('retry', null) $$, 'RL400', null, 'No filter is refused');
select throws_ok(
  $$ select queue.bulk('retry', '{"x": 1}') $$, 'RL400', null, 'An unknown filter is refused'
);
select throws_ok(
  $$ select queue.bulk('retry', '{"other_priority": 1}') $$, 'RL400', null,
  'The filter''s own word for reprioritize is nobody else''s'
);
select throws_ok(
  $$ select queue.bulk('cancel', '{}', true, 10, '{"delay": "1 s"}') $$, 'RL400', null,
  'Arguments of another action are refused'
);
select throws_ok(
  $$ select queue.bulk('retry', '{}', true, 10, '{"spread": "soon"}') $$,
  'RL400', 'arguments: spread ''soon'' is no interval',
  'Arguments that cannot be read are refused by name'
);
select throws_ok(
  $$ select queue.bulk('retry', '{}', true, 10, '{"spread": "31 days"}') $$, 'RL400', null,
  'A spread over 30 days is refused'
);
select throws_ok(
  $$ select queue.bulk('reprioritize', '{}', false) $$, 'RL400', null,
  'reprioritize wants a priority'
);
select lives_ok($$ select queue.bulk('reprioritize', '{}') $$, 'which a dry run may leave open');
select throws_ok(
  format('select queue.bulk(%L, %L, true)', action, filter), 'RL400',
  action || ' takes no job that is ' || status,
  'An action is refused where the filter wants jobs that it never takes'
)
from (
  values
    ('retry', '{"status": "queued"}', 'queued'), ('discard', '{"status": "running"}', 'running'),
    ('cancel', '{"status": "failed"}', 'failed'), ('run_now', '{"label": "running"}', 'running'),
    ('retry', '{"label": "ready"}', 'queued'), ('cancel', '{"label": "dead"}', 'failed'),
    ('reprioritize', '{"label": "succeeded"}', 'succeeded')
) as wrong (action, filter, status);
select throws_ok(
  format('select queue.bulk(%L, %L, true, 10, %L)', 'retry', '{}', wrong), 'RL400', null,
  'What each job would refuse is refused at once, in a dry run too'
)
from unnest(
  array[
    '{"extra_attempts": 0}', '{"extra_attempts": 100001}', '{"delay": "11 years"}',
    '{"delay": "10 years", "spread": "1 day"}'
  ]
) as wrong;
select throws_ok(
  $$ select queue.bulk('retry', '{}', true, 0) $$, 'RL400', null, 'max_jobs is at least 1'
);
select throws_ok(
  $$ select queue.bulk('retry', '{}', false, 1001) $$, 'RL400', null, 'max_jobs is at most 1,000'
);
select lives_ok($$ select queue.bulk('retry', '{}', true, 10000) $$, 'of a dry run 10,000');
select throws_ok($$ select queue.bulk('retry', '{}', true, 10001) $$, 'RL400', null, 'and no more');
select throws_ok(
  $$ select queue.bulk('cancel', '{}', cursor => 'nowhere') $$, 'RL400', null,
  'A cursor is one that was given'
);
select throws_ok(
  $$
    select queue.bulk(
      'retry', '{}', cursor => (select next_cursor from queue.bulk('cancel', '{}', max_jobs => 1))
    )
  $$,
  'RL400', null, 'for that action and filter'
);

-- What was changed matches no more ----------------------------------------------------------------

select queue_tests.enqueue_one('long', 'endless') from generate_series(1, 3);
select queue_tests.enqueue_one('later', 'endless', delay => '1 hour') from generate_series(1, 2);
select queue_tests.claim_one('endless') from generate_series(1, 2);
select is(
  (select count(*)::integer from queue.bulk('run_now', '{"queue": "endless"}', false)), 2,
  'run_now takes what is not due yet'
);
select is_empty(
  $$ select from queue.bulk('run_now', '{"queue": "endless"}', false) where job_id is not null $$,
  'What was made due matches no more'
);
select is(
  (select count(*)::integer from queue.bulk('cancel', '{"queue": "endless"}', false)), 5,
  'cancel takes what waits and what runs'
);
select is_empty(
  $$ select from queue.bulk('cancel', '{"queue": "endless"}', false) where job_id is not null $$,
  'What was asked to stop matches no more'
);

-- A page at a time --------------------------------------------------------------------------------

-- What became of which jobs, call by call, each from where the one before stopped.
create function pg_temp.pages(
  action text, filter jsonb, max_jobs integer, arguments jsonb default '{}'
)
returns text language plpgsql as $$
declare
  v_cursor text;
  v_pages text;
  v_page record;
begin
  loop
    select
      string_agg(
        coalesce(job.payload ->> 'n', '-') || left(found.outcome, 1),
        ' ' order by job.payload ->> 'n'
      ) as ns,
      max(found.next_cursor) as next
    into v_page
    from queue.bulk(
        pages.action, pages.filter, false, pages.max_jobs, pages.arguments, cursor => v_cursor
      ) as found
      left join queue.jobs as job on job.id = found.job_id;
    v_pages := concat_ws(', ', v_pages, v_page.ns);
    v_cursor := v_page.next;
    exit when v_cursor is null;
  end loop;
  return v_pages;
end $$;

select queue.enqueue(
  'paged', jsonb_build_object('n', n), 'paged', delay => case when n > 5 then interval '1 hour' end
)
from generate_series(1, 7) as n;
select queue.claim('w', '{paged}', 3);
select is(
  pg_temp.pages('reprioritize', '{"queue": "paged"}', 3, '{"priority": 1}'), '4c 5c 6c, 7c',
  'A job that moved back in line is not met again'
);
select is(
  pg_temp.pages('cancel', '{"queue": "paged"}', 5), '3c 4c 5c 6c 7c, 1c 2c',
  'cancel goes on from what waits to what runs'
);
select is(
  pg_temp.pages(
    'retry',
    jsonb_build_object('ids', (select jsonb_agg(id) from queue.jobs where queue = 'paged')), 3
  ),
  '1s 2s 3s, 4c 5c 6c, 7c',
  'A list of ids has pages, too; what is skipped is not met again'
);

-- A hundred that failed before 10,100 others.
insert into queue.jobs (
  created_at, available_at, finished_at, status, max_attempts, attempt, fence, kind, error_type
)
select
  now(), now(), now() - n * interval '1 s', 'failed', 5, 1, 1,
  case when n > 10100 then 'rare' else 'common' end, 'E'
from generate_series(1, 10200) as n;
create temp table reads as select queue_tests.rows_read() as rows;
create temp table nothing as
select * from queue.bulk('retry', '{"kind": "rare"}', false, reason => 'none');
select results_eq(
  'select job_id, outcome, next_cursor is not null from nothing',
  'values (null::bigint, null::text, true)',
  'A call that found nothing in 10,000 rows says where to go on'
);
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 20100::bigint,
  'It read 10,000 rows, and their index'
);
select is_empty($$ select from queue.audit where reason = 'none' $$, 'It is not in the audit');
select results_eq(
  $$
    select found.outcome, found.next_cursor, count(*)::integer
    from nothing, queue.bulk(
      'retry', '{"kind": "rare"}', false, cursor => nothing.next_cursor
    ) as found
    group by 1, 2
  $$,
  $$ values ('changed', null::text, 100) $$,
  'The next call finds them'
);

-- What waits and what runs are read within the same 10,000.
insert into queue.jobs (created_at, available_at, max_attempts, queue, kind)
select now(), now(), 5, 'both', 'wait' from generate_series(1, 6000) as n;
insert into queue.jobs (
  created_at, available_at, started_at, lease_expires_at, worker, status, max_attempts, attempt,
  fence, queue, kind
)
select now(), now(), now(), now() + interval '1 hour', 'w', 'running', 5, 1, 1, 'both', 'run'
from generate_series(1, 6000) as n;
truncate reads;
insert into reads select queue_tests.rows_read();
select ok(
  (
    select job_id is null
      and next_cursor like 'running %'
    from queue.bulk('cancel', '{"queue": "both", "kind": "k"}')
  ),
  'A call stops among what runs'
);
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 20100::bigint,
  'when it has read 10,000 of both'
);

select is(
  (select count(*)::integer from queue.bulk('retry', '{"kind": "common"}', null, 5)), 5,
  'A null dry_run lists'
);
select is(
  (select count(*)::integer from queue.jobs where kind = 'common' and status = 'failed'), 10100,
  'and changes nothing'
);

select * from finish();
rollback;
