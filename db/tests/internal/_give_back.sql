begin;
select no_plan();

create function pg_temp.give_back(kind text, delay interval) returns text language sql as $$
  select (queue._give_back(job, 'snoozed', delay, 'snooze', repeat('r', 2000))).status
  from queue.jobs as job where job.id = queue_tests.job_id(give_back.kind);
$$;

select queue_tests.run_one('held', max_attempts => 1);
select is(pg_temp.give_back('held', '1 h'), 'queued', 'A job given back is queued');
select results_eq(
  $$
    select
      job.attempt, job.fence, job.settled_as, job.available_at - item.at,
      length(item.detail ->> 'reason')
    from queue.jobs as job join queue.job_events as item on item.job_id = job.id
    where job.kind = 'held' and item.event = 'snoozed'
  $$,
  $$ values (0, 1, 'snooze', interval '1 h', 1000) $$,
  'Its attempt is not used up, its fence is, and the delay counts from the transition'
);

select queue_tests.run_one('unwanted');
select queue.cancel(queue_tests.job_id('unwanted'));
select is(
  pg_temp.give_back('unwanted', '0'), 'cancelled', 'Once a cancel was requested it is cancelled'
);
select is(
  queue_tests.last_event(queue_tests.job_id('unwanted')),
  'cancelled running -> cancelled, attempt 1, fence 1',
  'With its attempt used up'
);

select * from finish();
rollback;
