begin;
select no_plan();

create function pg_temp.taken(kind text)
returns text language sql as $$
  select queue._take_away(job, clock_timestamp())
  from queue.jobs as job
  where job.kind = taken.kind;
$$;
select queue_tests.run_one('silent');
select is(pg_temp.taken('silent'), 'queued', 'It says what became of the job');
select is(
  queue_tests.last_event(queue_tests.job_id('silent')),
  'lease_expired running -> queued, attempt 1, fence 1',
  'A worker that fell silent lost its lease'
);
select queue_tests.run_one('slow', timeout => '1 hour', max_attempts => 1);
update queue.jobs set deadline_at = clock_timestamp() where kind = 'slow';
select is(pg_temp.taken('slow'), 'failed', 'failed without an attempt left');
select is(
  queue_tests.last_event(queue_tests.job_id('slow')),
  'timed_out running -> failed, attempt 1, fence 1',
  'From its deadline on a job has timed out'
);
select queue_tests.run_one('early', timeout => '1 hour');
select queue.cancel(queue_tests.job_id('early'));
select is(pg_temp.taken('early'), 'cancelled', 'cancelled when that was asked');

select * from finish();
rollback;
