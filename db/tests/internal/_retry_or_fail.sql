begin;
select no_plan();

create function pg_temp.decide(
  kind text, event text, retry_in interval default null, fatal boolean default false,
  verb text default null,
  message text default 'm'
)
returns text
language sql
as $$
  select (queue._retry_or_fail(job, event, 'E', message, '{"d": 1}', retry_in, fatal, verb)).status
  from queue.jobs as job where job.id = queue_tests.job_id(decide.kind);
$$;

-- Every combination of what it is asked and what it finds.
create temp table cases as
select
  format('%s-%s-%s-%s', event, case when last then 'last' else 'more' end,
    case when fatal then 'fatal' else 'mild' end,
    case when cancel then 'unwanted' else 'wanted' end) as kind,
  event, last, fatal, cancel
from unnest('{failed,lease_expired,timed_out}'::text[]) as event,
  unnest('{f,t}'::boolean[]) as last, unnest('{f,t}'::boolean[]) as fatal,
  unnest('{f,t}'::boolean[]) as cancel;

select queue_tests.run_one(kind, max_attempts => case when last then 1 else 2 end) from cases;
select queue.cancel(queue_tests.job_id(kind)) from cases where cancel;
select is(
  pg_temp.decide(kind, event, fatal => fatal),
  case when cancel then 'cancelled' when last or fatal then 'failed' else 'queued' end,
  kind || ': a requested cancel comes first, then fatal or no attempt left, else it is queued again'
)
from cases;
select results_eq(
  $$ select kind, queue_tests.last_event(queue_tests.job_id(kind)) from cases $$,
  $$
    select kind,
      case
        when cancel then 'cancelled running -> cancelled, attempt 1, fence 1'
        when last or fatal then event || ' running -> failed, attempt 1, fence 1'
        else case event when 'failed' then 'retry_scheduled' else event end
          || ' running -> queued, attempt 1, fence 1'
      end
    from cases
  $$,
  'The event is the reason; failed becomes retry_scheduled when queued, cancelled stands for all'
);
select is_empty(
  $$
    select kind from queue_tests.jobs
    where (error_type, error_message, error_group) <> ('E', 'm', queue._error_group(kind, 'E', 'm'))
      or settled_fence is not null or settled_as is not null
  $$,
  'The error is on the row in every case, and no answer is remembered where nobody answered'
);

select queue_tests.run_one('answered');
select pg_temp.decide('answered', 'failed', '7 min', verb => 'fail');
select results_eq(
  $$
    select
      job.settled_fence, job.settled_as, job.available_at - item.at, item.detail - 'available_at'
    from queue_tests.jobs as job join queue_tests.job_events as item on item.job_id = job.id
    where job.kind = 'answered' and item.event = 'retry_scheduled'
  $$,
  $$
    select 1, 'fail', interval '7 min',
      jsonb_build_object(
        'error_type', 'E', 'error_message', 'm', 'error_group',
        queue._error_group('answered', 'E', 'm'),
        'error_detail', '{"d": 1}'::jsonb
      )
  $$,
  'The holder''s answer is remembered, its delay taken exactly, the event tells all of the error'
);

update queue.settings set backoff_base = '1 h', backoff_cap = '1 h';
insert into queue.policies (queue, backoff_base, backoff_cap) values ('own', '10 h', '10 h');
select queue_tests.run_one('common');
select queue_tests.run_one('own');
select pg_temp.decide('common', 'lease_expired');
select pg_temp.decide('own', 'lease_expired');
select results_eq(
  $$
    select job.kind, job.available_at = item.at + queue._backoff(job.id, 1, hours, hours)
    from (values ('common', interval '1 h'), ('own', '10 h')) as named (kind, hours)
      join queue_tests.jobs as job on job.kind = named.kind
      join queue_tests.job_events as item on item.job_id = job.id and item.event = 'lease_expired'
  $$,
  $$ values ('common', true), ('own', true) $$,
  'The backoff is the policy''s, else that of the settings'
);

select queue_tests.run_one('many', max_attempts => 100000);
update queue.jobs set attempt = 99999, fence = 99999 where kind = 'many';
select is(
  pg_temp.decide('many', 'failed'), 'queued', 'At attempt 99,999 of 100,000 it is still queued'
);

select queue_tests.run_one('wordy');
select pg_temp.decide('wordy', 'failed', message => null);
select is(
  (select error_message from queue_tests.jobs where kind = 'wordy'), '',
  'No message is the empty one'
);

select * from finish();
rollback;
