begin;
select no_plan();

select results_eq(
  'select id, event, next_cursor from queue.list_events()',
  'values (null::bigint, null::text, null::bigint)',
  'Without events there is one row, without an id'
);

set local rowlock.actor = 'alice';
select queue_tests.run_one('first');
set local rowlock.actor = '';
select queue.progress(queue_tests.job_id('first'), 1, 50, 'half');
select queue.fail(queue_tests.job_id('first'), 1, 'E', 'message', retry_in => '0');
select queue_tests.run_one('second');
select queue.complete(queue_tests.job_id('second'), 1);

select results_eq(
  $$
    select
      id, at, job_id, queue, kind, event, from_status, to_status, attempt, fence, elapsed, worker,
      actor, detail
    from queue.list_events(queue_tests.job_id('first'))
  $$,
  $$
    select
      id, at, job_id, queue, kind, event, from_status, to_status, attempt, fence, elapsed, worker,
      actor, detail
    from queue_tests.job_events where kind = 'first' order by id
  $$,
  'The history of a job comes whole, oldest first'
);
select results_eq(
  $$
    select event, from_status, to_status, attempt, fence, worker
    from queue.list_events(queue_tests.job_id('first'))
  $$,
  $$
    values ('enqueued', null::text, 'queued', 0, 0, null::text),
      ('claimed', 'queued', 'running', 1, 1, 'tester'),
      ('progressed', 'running', 'running', 1, 1, 'tester'),
      ('retry_scheduled', 'running', 'queued', 1, 1, 'tester')
  $$,
  'and reads like what happened'
);
select results_eq(
  $$
    select page.event, there.event
    from queue.list_events(queue_tests.job_id('first'), max_events => 3) with ordinality as page,
      queue.list_events(queue_tests.job_id('first'), cursor => page.id) as there
    where page.ordinality = 3
  $$,
  $$ values ('progressed', 'retry_scheduled') $$,
  'After a cursor it goes on'
);
select results_eq(
  $$
    select event from queue.list_events(
      queue_tests.job_id('first'), '{"event": "claimed", "worker": "tester"}'
    )
  $$,
  $$ values ('claimed') $$,
  'A filter holds for one job, too'
);
select is_empty(
  'select from queue.list_events(-1) where id is not null', 'A job that never was has no history'
);
delete from queue.jobs where kind = 'second';
select is(
  (
    select count(*)
    from queue.list_events((select min(job_id) from queue_tests.job_events where kind = 'second'))
  ),
  3::bigint, 'A job that is gone has one'
);

-- All.
select results_eq(
  $$ select kind, event from queue.list_events(max_events => 4) $$,
  $$
    values ('second', 'succeeded'), ('second', 'claimed'), ('second', 'enqueued'),
      ('first', 'retry_scheduled')
  $$,
  'Of all jobs the newest come first'
);
select results_eq(
  $$
    select there.kind, there.event
    from queue.list_events(max_events => 4) with ordinality as page,
      queue.list_events(cursor => page.id, max_events => 2) as there
    where page.ordinality = 4
  $$,
  $$ values ('first', 'progressed'), ('first', 'claimed') $$,
  'From before a cursor'
);
select is(
  (select string_agg(kind || ' ' || event, ', ' order by ordinality)
   from queue.list_events(filter => filter::jsonb) with ordinality),
  want, rule
)
from (
  values
    ('{"event": "claimed"}', 'second claimed, first claimed', 'by event'),
    ('{"queue": "second", "event": "claimed"}', 'second claimed', 'by queue'),
    ('{"kind": "first", "event": "claimed"}', 'first claimed', 'by kind'),
    ('{"worker": "tester", "event": "progressed"}', 'first progressed', 'by worker'),
    ('{"actor": "alice", "event": "enqueued"}', 'first enqueued', 'by actor'),
    ('{"worker": "nobody"}', null, 'who may have done nothing')
) as wanted (filter, want, rule);

-- The cost of a page among many.
insert into queue.job_events (at, job_id, attempt, fence, event, to_status, queue, kind)
select now() - n * interval '1 minute', -n, 0, 0, 'enqueued', 'queued', 'many', 'many'
from generate_series(1, 12000) as n;
create temp table reads as select queue_tests.rows_read('queue.job_events') as rows;
select is(
  (select count(*) from queue.list_events()), 100::bigint, 'A page has 100 events by default'
);
select cmp_ok(
  queue_tests.rows_read('queue.job_events') - (select rows from reads), '<=', 300::bigint,
  'It reads little more than it shows'
);
truncate reads;
insert into reads select queue_tests.rows_read('queue.job_events');
create temp table nothing as
select id, next_cursor from queue.list_events(filter => '{"kind": "first"}');
select results_eq(
  'select id, next_cursor is not null from nothing', 'values (null::bigint, true)',
  'A page on which nothing of 10,000 matched says where to go on'
);
select cmp_ok(
  queue_tests.rows_read('queue.job_events') - (select rows from reads), '<=', 10200::bigint,
  'It read no more'
);
select results_eq(
  $$
    select there.event, there.next_cursor
    from nothing,
      queue.list_events(
        filter => '{"kind": "first", "event": "enqueued"}', cursor => nothing.next_cursor
      ) as there
  $$,
  $$ values ('enqueued', null::bigint) $$,
  'The next page finds it'
);
insert into queue.job_events (at, job_id, attempt, fence, event, to_status, queue, kind)
select
  now(), 777777, 0, 0, case when n > 10050 then 'failed' else 'snoozed' end, 'queued', 'long',
  'long'
from generate_series(1, 10060) as n;
select results_eq(
  $$
    select page.id, there.event, count(*)
    from queue.list_events(777777, '{"event": "failed"}') as page,
      queue.list_events(777777, '{"event": "failed"}', page.next_cursor) as there
    group by 1, 2
  $$,
  $$ values (null::bigint, 'failed', 10::bigint) $$,
  'So does the history of one job'
);

-- Pages.
create function pg_temp.pages(of_job bigint, filter jsonb, max_events integer)
returns text language plpgsql as $$
declare
  v_cursor bigint;
  v_pages text;
  v_page record;
begin
  loop
    select
      string_agg(coalesce(event, '-'), ' ' order by listed.ordinality) as events,
      max(next_cursor) as next
    into v_page
    from queue.list_events(
      pages.of_job, pages.filter, v_cursor, pages.max_events
    ) with ordinality as listed;
    v_pages := concat_ws(', ', v_pages, v_page.events);
    v_cursor := v_page.next;
    exit when v_cursor is null;
  end loop;
  return v_pages;
end $$;
select is(
  pg_temp.pages(queue_tests.job_id('first'), '{}', 2),
  'enqueued claimed, progressed retry_scheduled, -',
  'Pages of a job join without gap or overlap; an end that fills a page is told by the next'
);
delete from queue.job_events where kind in ('many', 'long');
select is(
  pg_temp.pages(null, '{"worker": "tester"}', 3),
  'succeeded claimed retry_scheduled, progressed claimed',
  'So do pages of all'
);

select throws_ok(format('select queue.list_events(%s)', arguments), 'RL400', null, rule)
from (
  values
    ($$filter => '[]'$$, 'A filter is an object'),
    ($$filter => '{"status": "queued"}'$$, 'An unknown field is told'),
    ($$filter => '{"queue": 7}'$$, 'A field is a string'),
    ($$filter => '{"kind": null}'$$, 'and not null'),
    ($$filter => '{"worker": ["tester"]}'$$, 'nor one of several'),
    ($$max_events => 0$$, 'A page has an event at least'),
    ($$max_events => 1001$$, 'and 1,000 at most'),
    ($$max_events => null$$, 'max_events is a number')
) as wrong (arguments, rule);
select throws_like(
  $$ select queue.list_events(filter => '{"event": "fialed"}') $$, '%event ''fialed'' is unknown',
  'An unknown event is told by its name'
);
select throws_ok(
  $$ select queue.list_events(queue_tests.job_id('first'), '{"event": "Failed"}') $$, 'RL400', null,
  'of one job, too'
);
select lives_ok(
  format('select queue.list_events(filter => %L)', jsonb_build_object('event', known.event[1])),
  known.event[1] || ' is an event'
)
from pg_constraint as domain
  cross join regexp_matches(pg_get_constraintdef(domain.oid), '''(\w+)''', 'g') as known (event)
where domain.contypid = 'queue.event'::regtype;
select lives_ok($$ select queue.list_events(filter => null) $$, 'No filter is an empty one');

set local role queue_worker;
select throws_ok($$ select queue.list_events() $$, '42501', null, 'A worker may not look');
set local role queue_viewer;
select lives_ok($$ select queue.list_events() $$, 'A viewer may');
reset role;

select * from finish();
rollback;
