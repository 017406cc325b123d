begin;
select no_plan();

create function pg_temp.fail_with(
  kind text, queue text, error_type text, message text, times integer, ago interval
)
returns void language plpgsql as $$
declare v_id bigint;
begin
  for i in 1..times loop
    v_id := queue_tests.enqueue_one(kind, queue, max_attempts => 1);
    perform queue_tests.claim_one(queue);
    perform queue.fail(v_id, 1, error_type, format(message, i));
    update queue.jobs set finished_at = finished_at - ago - i * interval '1 s' where id = v_id;
  end loop;
end;
$$;

select pg_temp.fail_with(
  'charge', 'billing', 'CardDeclined', 'card %s of customer ''x'' declined', 5, '10 minutes'
);
select pg_temp.fail_with(
  'charge', 'billing', 'CardDeclined', 'card %s of customer ''y'' declined', 2, '5 hours'
);
select pg_temp.fail_with('charge', 'billing', 'Timeout', 'no answer after %s s', 1, '2 days');
select pg_temp.fail_with('sync', 'crm', 'Timeout', 'no answer after %s s', 3, '8 days');

select results_eq(
  $$
    select kind_of_job, error_type, jobs, last_hour, last_day, last_week from queue.failure_groups()
  $$,
  $$
    values
      ('charge', 'CardDeclined', 7, 5, 7, 7),
      ('sync', 'Timeout', 3, 0, 0, 0),
      ('charge', 'Timeout', 1, 0, 0, 1)
  $$,
  'Errors alike but for numbers and quoted words are one group a kind, the largest first'
);
select results_eq(
  $$ select sample_id, error_message, last_at from queue.failure_groups() where jobs = 7 $$,
  $$
    select id, error_message, finished_at
    from queue_tests.jobs
    where status = 'failed'
    order by finished_at desc
    limit 1
  $$,
  'The sample is the last to fail'
);
select is(
  (select first_at from queue.failure_groups() where jobs = 7),
  (select min(finished_at) from queue_tests.jobs where error_type = 'CardDeclined'),
  'first_at is when the first failed'
);
select results_eq(
  $$ select error_group from queue.failure_groups() where jobs = 7 $$,
  $$ select distinct error_group from queue_tests.jobs where error_type = 'CardDeclined' $$,
  'error_group is the jobs'' own, to be filtered by'
);
select is(
  (select sum(jobs)::integer from queue.failure_groups('crm')), 3, 'A queue is grouped by itself'
);
select is(
  (select sum(jobs)::integer from queue.failure_groups(kind => 'charge')), 8,
  'A kind is grouped by itself'
);
select is(
  (select sum(jobs)::integer from queue.failure_groups(since => now() - interval '1 day')), 7,
  'since leaves out older ones'
);
select is(
  (select count(*)::integer from queue.failure_groups(max_groups => 1)), 1,
  'max_groups cuts the list'
);
select is(
  (select bool_or(capped) from queue.failure_groups()), false, 'Nothing is left out below 10,000'
);
select throws_ok(
  'select queue.failure_groups(max_groups => 0)', 'RL400', null, 'max_groups is at least 1'
);
select throws_ok(
  'select queue.failure_groups(max_groups => 201)', 'RL400', null, 'max_groups is at most 200'
);

select queue.retry(id) from queue_tests.jobs where kind = 'charge' and status = 'failed';
select is(
  (select count(*)::integer from queue.failure_groups('billing')), 0,
  'A retried job has left its group'
);

select * from finish();
rollback;
