begin;
select no_plan();

select queue_tests.one_in(status)
from unnest('{queued,running,succeeded,failed,cancelled}'::text[]) as status;
select queue_tests.run_one('gone') from generate_series(1, 3);
select queue_tests.expire_lease(id) from queue.jobs where kind = 'gone';
create temp table gone as
select id, row_number() over (order by id) as place from queue.jobs where kind = 'gone';

select results_eq(
  $$ select expired.id from queue._expired(clock_timestamp(), 10) as expired order by 1 $$,
  $$ select id from gone order by 1 $$,
  'Running jobs whose lease has run out, and no other'
);
select results_eq(
  $$ select to_jsonb(expired) from queue._expired(clock_timestamp(), 1) as expired $$,
  $$ select to_jsonb(job) from queue.jobs as job join gone using (id) where place = 1 $$,
  'They come whole, max_jobs at most'
);
select results_eq(
  $$
    select expired.id from queue._expired(
      clock_timestamp(), 10, array(select id from gone where place in (1, 3))
    ) as expired
  $$,
  $$ select id from gone where place = 2 $$,
  'What was set aside is passed by'
);
select is_empty(
  $$ select from queue._expired(clock_timestamp() - interval '2 seconds', 10) $$,
  'The instant decides'
);
select results_eq(
  $$
    select count(*)
    from gone, queue._expired((select lease_expires_at from queue.jobs where id = gone.id), 10) as e
    where e.id = gone.id and gone.place = 2
  $$,
  $$ values (1::bigint) $$,
  'A lease has run out at its end'
);

select * from finish();
rollback;
