-- Helpers of the pgTAP files. Jobs are named by their kind: a file gives each job a kind of its
-- own, and finds it again by it. They run as their owner, so that they serve under `set role` too.

create schema queue_tests;
grant usage on schema queue_tests to public;

-- The tables with their columns in base types: results_eq tells a domain from its base.
create view queue_tests.jobs as
  select
    job.id, job.created_at, job.available_at, job.started_at, job.finished_at, job.lease_expires_at,
    job.deadline_at, job.cancel_requested_at, job.attempt,
    job.max_attempts::integer as max_attempts,
    job.fence, job.settled_fence,
    job.priority::smallint as priority,
    job.progress::smallint as progress,
    job.status,
    job.queue::text as queue,
    job.kind::text as kind,
    job.worker::text as worker,
    job.settled_as,
    job.idempotency_key::text as idempotency_key,
    job.created_by,
    job.lease::interval as lease,
    job.timeout::interval as timeout,
    job.payload,
    job.headers::jsonb as headers,
    job.progress_message::text as progress_message,
    job.error_type::text as error_type,
    job.error_message::text as error_message,
    job.error_group, job.result
  from queue.jobs as job;

create view queue_tests.job_events as
  select
    event.id, event.at, event.xid, event.job_id, event.attempt, event.fence, event.elapsed,
    event.event::text as event,
    event.from_status, event.to_status, event.queue, event.kind, event.worker, event.actor,
    event.detail
  from queue.job_events as event;

create view queue_tests.policies as
  select
    policy.queue::text as queue,
    policy.paused_at, policy.paused_until, policy.paused_by, policy.pause_reason,
    policy.lease::interval as lease,
    policy.timeout::interval as timeout,
    policy.max_attempts::integer as max_attempts,
    policy.backoff_base, policy.backoff_cap, policy.finished_retention, policy.failed_retention
  from queue.policies as policy;

-- Enqueues a job and returns its id.
create function queue_tests.enqueue_one(
  kind text default 'demo',
  queue text default 'default',
  priority integer default 5,
  delay interval default null,
  max_attempts integer default null,
  lease interval default null,
  timeout interval default null
)
returns bigint
language sql
security definer
as $$
  select answer.job_id
  from queue.enqueue(
    enqueue_one.kind,
    queue => enqueue_one.queue,
    priority => enqueue_one.priority,
    delay => enqueue_one.delay,
    max_attempts => enqueue_one.max_attempts,
    lease => enqueue_one.lease,
    timeout => enqueue_one.timeout
  ) as answer;
$$;

-- Claims the next job of a queue and returns its id, null when none is due.
create function queue_tests.claim_one(queue text default 'default', worker text default 'tester')
returns bigint
language sql
security definer
as $$
  select claimed.job_id from queue.claim(claim_one.worker, array[claim_one.queue]) as claimed;
$$;

-- Enqueues a job in a queue named like its kind, claims it there, and returns its id.
create function queue_tests.run_one(
  kind text default 'demo',
  max_attempts integer default null,
  lease interval default null,
  timeout interval default null
)
returns bigint
language plpgsql
security definer
as $$
begin
  perform queue_tests.enqueue_one(
    run_one.kind,
    run_one.kind,
    max_attempts => run_one.max_attempts,
    lease => run_one.lease,
    timeout => run_one.timeout
  );
  return queue_tests.claim_one(run_one.kind);
end;
$$;

-- The id of the latest job of a kind.
create function queue_tests.job_id(kind text)
returns bigint
language sql
stable
security definer
as $$
  select max(job.id) from queue.jobs as job where job.kind = job_id.kind;
$$;

-- Its fence.
create function queue_tests.fence(kind text)
returns integer
language sql
stable
security definer
as $$
  select job.fence from queue.jobs as job where job.id = queue_tests.job_id(fence.kind);
$$;

-- Moves every instant of a job into the past.
create function queue_tests.age(job_id bigint, by_interval interval)
returns void
language plpgsql
security definer
as $$
begin
  update queue.jobs as job
  set created_at = job.created_at - by_interval,
      available_at = job.available_at - by_interval,
      started_at = job.started_at - by_interval,
      finished_at = job.finished_at - by_interval,
      lease_expires_at = job.lease_expires_at - by_interval,
      deadline_at = job.deadline_at - by_interval,
      cancel_requested_at = job.cancel_requested_at - by_interval
  where job.id = age.job_id;

  -- No function dates a job before what this session has seen; ageing does.
  perform set_config('rowlock.floors', '', false);
end;
$$;

-- Lets the lease of a running job run out, and nothing else.
create function queue_tests.expire_lease(job_id bigint)
returns void
language sql
security definer
as $$
  update queue.jobs as job
  set lease_expires_at = clock_timestamp() - interval '1 second'
  where job.id = expire_lease.job_id;
$$;

-- The history of a job, oldest first.
create function queue_tests.events(job_id bigint)
returns table (
  event text,
  from_status text,
  to_status text,
  attempt integer,
  fence integer,
  worker text,
  detail jsonb
)
language sql
stable
security definer
as $$
  select
    item.event, item.from_status, item.to_status, item.attempt, item.fence, item.worker, item.detail
  from queue.job_events as item
  where item.job_id = events.job_id
  order by item.id;
$$;

-- The latest event of a job, as '<event> <from> -> <to>, attempt <n>, fence <n>'.
create function queue_tests.last_event(job_id bigint)
returns text
language sql
stable
security definer
as $$
  select
    format(
      '%s %s -> %s, attempt %s, fence %s',
      item.event, item.from_status, item.to_status, item.attempt, item.fence
    )
  from queue.job_events as item
  where item.job_id = last_event.job_id
  order by item.id desc
  limit 1;
$$;

-- Everything the tables say about a job: to show that a call changed nothing.
create function queue_tests.everything(job_id bigint)
returns jsonb
language sql
stable
security definer
as $$
  select jsonb_build_object(
    'job', (select to_jsonb(job) from queue.jobs as job where job.id = everything.job_id),
    'events', (
      select jsonb_agg(to_jsonb(item) order by item.id)
      from queue.job_events as item
      where item.job_id = everything.job_id
    )
  );
$$;
