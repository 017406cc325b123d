begin;
select no_plan();

select results_eq(
  $$ select id, previous_cursor, next_cursor from queue.list_jobs() $$,
  $$ values (null::bigint, null::text, null::text) $$,
  'Without jobs there is one row, without an id'
);

-- Ages in minutes tell them apart: job 1 is the oldest.
select queue.enqueue(
  'mail', jsonb_build_object('n', n, 'tags', jsonb_build_array('a', n)), 'mail', n % 3,
  idempotency_key => 'key ' || n, headers => jsonb_build_object('tenant', n % 2)
)
from generate_series(1, 9) as n;
select queue_tests.age(id, (10 - (payload ->> 'n')::integer) * interval '1 min') from queue.jobs;
create temp table jobs as select id, (payload ->> 'n')::integer as n from queue.jobs;
select queue.cancel(id) from jobs where n = 4;
update queue.jobs
set available_at = now() + interval '1 hour'
where id = (select id from jobs where n = 5);
select queue_tests.enqueue_one('film', 'film', priority => 9);

create function pg_temp.listed(filter jsonb, max_jobs integer default 50)
returns text language sql as $$
  select string_agg(jobs.n::text, ' ' order by listed.ordinality)
  from queue.list_jobs(filter, max_jobs => max_jobs) with ordinality as listed
    join jobs using (id);
$$;

select is(pg_temp.listed('{}'), '9 8 7 6 5 4 3 2 1', 'Jobs come newest first');
select results_eq(
  $$
    select
      id, queue, kind, priority, status, label, attempt, max_attempts, created_at, available_at,
      started_at, finished_at, worker, lease_expires_at, cancel_requested_at, idempotency_key,
      progress,
      progress_message, error_type, error_message, error_group, previous_cursor, next_cursor
    from queue.list_jobs('{"idempotency_key": "key 5"}')
  $$,
  $$
    select id, 'mail', 'mail', 2, 'queued', 'scheduled', 0, 5, created_at, available_at,
      null::timestamptz, null::timestamptz, null::text, null::timestamptz, null::timestamptz,
      'key 5',
      null::integer, null::text, null::text, null::text, null::text, null::text, null::text
    from queue.jobs where idempotency_key = 'key 5'
  $$,
  'A row has everything but payload and result; a page that is all has no cursors'
);

-- Filters.
select is(pg_temp.listed(filter::jsonb), want, rule)
from (
  values
    ('{"queue": "mail"}', '9 8 7 6 5 4 3 2 1', 'by queue'),
    ('{"queue": "film"}', null, 'which may have none of these'),
    ('{"kind": "film"}', null, 'by kind'),
    ('{"priority": 2}', '8 5 2', 'by priority'),
    ('{"status": "cancelled"}', '4', 'by status'),
    ('{"label": "scheduled"}', '5', 'by label'),
    ('{"payload": {"n": 3}}', '3', 'by what the payload contains'),
    ('{"payload": {"tags": ["a"]}, "priority": 0}', '9 6 3', 'and several at once'),
    ('{"headers": {"tenant": 1}}', '9 7 5 3 1', 'by what the headers contain'),
    ('{"idempotency_key": "key 2"}', '2', 'by key'),
    ('{"worker": "tester"}', null, 'by worker')
) as wanted (filter, want, rule);
select is(
  pg_temp.listed(jsonb_build_object('ids', (select jsonb_agg(id) from jobs where n in (2, 7)))),
  '2 7', 'by id'
);
select is(
  pg_temp.listed(
    (
      select jsonb_build_object(
        'created_after', max(created_at) filter (where n = 5),
        'created_before', max(created_at) filter (where n = 7)
      )
      from jobs join queue.jobs as job using (id)
    )
  ),
  '6 5', 'by time: from the first instant on, up to the second'
);
select is(
  pg_temp.listed('{"status": "queued", "queue": "mail"}'), '2 8 5 1 7 3 6 9',
  'Queued jobs come as they stand in line: by priority, then by when they are due'
);
select is(pg_temp.listed('{"label": "ready"}', 3), '2 8', 'of all queues one after the other');

-- Failed ones: the last to fail first.
select queue.claim('tester', '{mail}', 3);
select queue.fail(id, 1, 'E', 'message ' || n, fatal => true)
from (
  select id, n
  from jobs
    join queue.jobs as job using (id)
  where job.status = 'running'
  order by n desc
) as j;
select is(
  pg_temp.listed('{"status": "failed"}'), '1 2 8', 'Failed jobs come the last to fail first'
);
select is(pg_temp.listed('{"label": "dead"}', 1), '1', 'under their other name, too');
select results_eq(
  $$
    select label, error_type, error_message
    from queue.list_jobs('{"status": "failed"}', max_jobs => 1)
  $$,
  $$ values ('dead', 'E', 'message 1') $$,
  'with their error'
);
select is(
  pg_temp.listed(jsonb_build_object('error_group', queue._error_group('mail', 'E', 'message 1'))),
  '8 2 1', 'by group of errors'
);
select queue.claim('tester', '{mail}', 2);
select is(pg_temp.listed('{"status": "running"}'), '7 3', 'Running jobs come newest first');
select is(
  pg_temp.listed('{"worker": "tester", "status": "running"}'), '7 3', 'and by who has them'
);
update queue.jobs
set error_message = repeat('x', 16000)
where id = (select id from jobs where n = 1);
select is(
  (select max(length(error_message)) from queue.list_jobs('{"status": "failed"}')), 500,
  'A long message is cut: the job itself has it whole'
);

-- Pages.
create function pg_temp.pages(filter jsonb, backwards boolean default false)
returns text language plpgsql as $$
declare
  v_cursor text := case when backwards then (
    select next_cursor from queue.list_jobs(filter, null, 200) limit 1
  ) end;
  v_pages text;
  v_page record;
begin
  if backwards then
    -- From the last page back to the first.
    loop
      select max(next_cursor) as next, max(previous_cursor) as previous into v_page
      from queue.list_jobs(filter, v_cursor, 2);
      exit when v_page.next is null;
      v_cursor := v_page.next;
    end loop;
  end if;
  loop
    select string_agg(coalesce(jobs.n::text, '-'), ' ' order by listed.ordinality) as ns,
      max(listed.next_cursor) as next, max(listed.previous_cursor) as previous
    into v_page
    from queue.list_jobs(filter, v_cursor, 2, backwards) with ordinality as listed
      left join jobs using (id);
    v_pages := concat_ws(', ', v_pages, v_page.ns);
    v_cursor := case when backwards then v_page.previous else v_page.next end;
    exit when v_cursor is null;
  end loop;
  return v_pages;
end $$;
select is(pg_temp.pages(filter::jsonb), want, rule)
from (
  values
    (
      '{"kind": "mail"}', '9 8, 7 6, 5 4, 3 2, 1', 'Pages of the newest join without gap or overlap'
    ),
    ('{"status": "failed"}', '1 2, 8', 'Pages of failed ones'),
    (
      '{"status": "running"}', '7 3, -',
      'Pages of running ones; an end that fills a page is told by the next'
    ),
    ('{"status": "queued", "kind": "mail"}', '5 6, 9', 'Pages of queued ones')
) as wanted (filter, want, rule);
select is(
  (
    select string_agg(jobs.n::text, ' ' order by back.ordinality)
    from (
      select next_cursor as cursor from queue.list_jobs('{"kind": "mail"}', null, 6) limit 1
    ) as page,
      queue.list_jobs('{"kind": "mail"}', page.cursor, 3) as there,
      queue.list_jobs('{"kind": "mail"}', there.previous_cursor, 2, true) with ordinality as back
      join jobs on jobs.id = back.id
    where there.id = (select id from jobs where n = 3)
  ),
  '5 4', 'Backwards is the page before the cursor, in the same order'
);

select is(
  pg_temp.pages(jsonb_build_object('ids', (select jsonb_agg(id) from jobs where n < 6))),
  '1 2, 3 4, 5',
  'Pages of jobs that are named'
);
select is(
  pg_temp.pages(jsonb_build_object('ids', (select jsonb_agg(id) from jobs where n < 6)), true),
  '2 3, 1',
  'and back from the last'
);
select is(pg_temp.pages('{"ids": [0, 1e30, 1.5]}'), '-', 'No job has an id that is none');

-- A page reads 10,000 rows at most.
insert into queue.jobs (
  created_at, available_at, finished_at, status, max_attempts, attempt, fence, kind
)
select now(), now(), now(), 'succeeded', 5, 1, 1, 'kept' from generate_series(1, 10500);
create temp table reads as select queue_tests.rows_read() as rows;
select results_eq(
  $$ select id, next_cursor is not null from queue.list_jobs('{"kind": "film"}') $$,
  $$ values (null::bigint, true) $$,
  'A page on which nothing matched says where to go on'
);
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 20500::bigint,
  'It read 10,000 rows, once to look and once for the cursor'
);
select results_eq(
  $$
    select there.kind, there.next_cursor
    from queue.list_jobs('{"kind": "film"}') as page, queue.list_jobs(
      '{"kind": "film"}', page.next_cursor
    ) as there
  $$,
  $$ values ('film', null::text) $$,
  'The next page finds it'
);
truncate reads;
insert into reads select queue_tests.rows_read();
select count(*) from queue.list_jobs();
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 150::bigint,
  'A page without a filter reads what it shows'
);

select throws_ok(format('select queue.list_jobs(%s)', arguments), 'RL400', null, rule)
from (
  values
    ($$'[]'$$, 'A filter is an object'),
    ($$'{"colour": "red"}'$$, 'An unknown field is told'),
    ($$'{"status": "done"}'$$, 'and an unknown status'),
    ($$'{"label": "done"}'$$, 'and an unknown label'),
    ($$'{"ids": [[1]]}'$$, 'ids are numbers'),
    ($$'{"ids": [null]}'$$, 'each of them'),
    ($$'{"priority": 10}'$$, 'and a priority that there is none of'),
    ($$'{"priority": 5.0}'$$, 'or that is written so that none is found'),
    ($$'{"created_after": "2027-01-31T12:00:00"}'$$, 'A time has its zone'),
    ($$'{"created_before": "1/2/2027 12:00Z"}'$$, 'and means the same in every session'),
    ($$'{}', 'nowhere'$$, 'A cursor is one that was given'),
    (
      $$'{}', (select next_cursor from queue.list_jobs('{"status": "failed"}', null, 1))$$,
      'for that filter'
    ),
    ($$'{}', max_jobs => 0$$, 'A page has a row at least'),
    ($$'{}', max_jobs => 201$$, 'and 200 at most')
) as wrong (arguments, rule);
select lives_ok($$ select queue.list_jobs(null) $$, 'No filter is an empty one');

set local role queue_worker;
select throws_ok($$ select queue.list_jobs() $$, '42501', null, 'A worker may not look');
set local role queue_viewer;
select lives_ok($$ select queue.list_jobs() $$, 'A viewer may');
reset role;

select * from finish();
rollback;
