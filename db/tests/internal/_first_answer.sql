begin;
select no_plan();

create function pg_temp.first_answer(kind text, fence integer)
returns table (status text, attempt integer, available_at timestamptz)
language sql
as $$
  select answer.status, answer.attempt, answer.available_at
  from queue.jobs as job, queue._first_answer(job, first_answer.fence) as answer
  where job.id = queue_tests.job_id(first_answer.kind);
$$;
create temp table answers (fence integer, status text, attempt integer, available_at timestamptz);

-- One job through every answer that leaves it alive, then its end, then a retry.
select queue_tests.enqueue_one('busy', max_attempts => 3);
select queue_tests.claim_one();
insert into answers select 1, status, attempt, available_at
from queue.snooze(queue_tests.job_id('busy'), 1, '0');
select queue_tests.claim_one();
insert into answers select 2, status, attempt, available_at
from queue.release(queue_tests.job_id('busy'), 2);
select queue_tests.claim_one();
select queue.progress(queue_tests.job_id('busy'), 3, 10);
insert into answers
select 3, status, attempt, available_at
from queue.fail(queue_tests.job_id('busy'), 3, 'E', retry_in => '0');
select queue_tests.claim_one();
insert into answers
select 4, status, attempt, available_at
from queue.fail(queue_tests.job_id('busy'), 4, 'E', fatal => true);
select queue.retry(queue_tests.job_id('busy'), delay => '2 days');
select queue.reprioritize(queue_tests.job_id('busy'), 9);

select results_eq(
  $$ select answer.* from answers, pg_temp.first_answer('busy', fence) as answer order by fence $$,
  $$ select status, attempt, available_at from answers order by fence $$,
  'Whatever became of a job since, each claim has the answer it was given'
);
select isnt(
  (select available_at from answers where fence = 4),
  (select available_at from queue.jobs where kind = 'busy'),
  'Though the job is due at another time now'
);

delete from queue.job_events where job_id = queue_tests.job_id('busy') and fence = 4;
select results_eq(
  $$ select * from pg_temp.first_answer('busy', 4) $$,
  $$ select status, attempt, available_at from queue.jobs where kind = 'busy' $$,
  'Once the events are gone the row answers'
);

-- An interval of a day is no 24 hours where the clocks change.
set local timezone = 'America/New_York';
select queue_tests.run_one('old', max_attempts => 1);
update queue.job_events
set at = '2024-03-10 12:00:00-04',
    elapsed = timestamptz '2024-03-10 12:00:00-04' - timestamptz '2024-03-08 12:00:00-05'
where job_id = queue_tests.job_id('old') and event = 'claimed';
select queue.fail(queue_tests.job_id('old'), 1, 'E');
select is(
  (select available_at from pg_temp.first_answer('old', 1)),
  timestamptz '2024-03-08 12:00:00-05',
  'The session''s time zone does not move an instant'
);

select * from finish();
rollback;
