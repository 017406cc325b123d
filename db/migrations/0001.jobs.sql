-- The jobs: one ordinary table, one row a job, its shape in each status held by named rules.

revoke all on schema queue from public;
grant usage on schema queue to queue_producer, queue_worker, queue_viewer, queue_web;
alter default privileges for role queue_owner revoke execute on functions from public;

-- What a value may be. A domain's rule is looked at where a value is set; a table's is parsed anew for each statement
-- and looked at for each row that it touches, so a table keeps what only a whole row can tell.

create domain queue.identifier as text
  -- Not {0,62}: bounded repetition makes a regular expression ten times slower.
  constraint is_a_name check (value ~ '^[a-z0-9][a-z0-9_.:-]*$' and length(value) <= 63);

create domain queue.attempts as integer
  constraint max_attempts_in_range check (value between 1 and 100000);

create domain queue.priority as smallint
  constraint priority_in_range check (value between 0 and 9);

create domain queue.percentage as smallint
  constraint progress_in_range check (value between 0 and 100);

create domain queue.lease as interval
  constraint lease_in_range check (value between interval '1 second' and interval '24 hours');

create domain queue.timeout as interval
  constraint timeout_in_range check (value between interval '1 second' and interval '7 days');

create domain queue.worker_id as text
  constraint worker_fits check (length(value) between 1 and 128);

create domain queue.idempotency_key as text
  constraint idempotency_key_fits check (length(value) between 1 and 255);

create domain queue.json_object as jsonb
  constraint is_an_object check (jsonb_typeof(value) = 'object');

create domain queue.progress_message as text
  constraint progress_message_fits check (length(value) <= 1000);

create domain queue.error_type as text
  constraint error_type_fits check (length(value) <= 200);

create domain queue.error_message as text
  constraint error_message_fits check (octet_length(value) <= 16384);

create table queue.jobs (
  id bigint generated always as identity primary key,
  created_at timestamptz not null,
  available_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz,
  lease_expires_at timestamptz,
  deadline_at timestamptz,
  cancel_requested_at timestamptz,
  attempt integer not null default 0,
  max_attempts queue.attempts not null,
  fence integer not null default 0,
  settled_fence integer,
  priority queue.priority not null default 5,
  progress queue.percentage,
  status text not null default 'queued',
  queue queue.identifier not null default 'default',
  kind queue.identifier not null,
  worker queue.worker_id,
  settled_as text,
  idempotency_key queue.idempotency_key,
  created_by text not null default session_user,
  lease queue.lease,
  timeout queue.timeout,
  payload jsonb not null default '{}',
  headers queue.json_object not null default '{}',
  progress_message queue.progress_message,
  error_type queue.error_type,
  error_message queue.error_message,
  error_group text,
  result jsonb,

  -- An array, not a list: a list is put together anew for each statement.
  constraint status_is_known
    check (status = any ('{queued,running,succeeded,failed,cancelled}')),
  constraint queued_can_run check (
    status <> 'queued'
    or (
      attempt < max_attempts and cancel_requested_at is null and isfinite(available_at)
      and worker is null and lease_expires_at is null and deadline_at is null
      and finished_at is null
    )
  ),
  constraint running_is_leased check (
    status <> 'running'
    or (
      worker is not null and lease_expires_at is not null and started_at is not null
      and finished_at is null
    )
  ),
  constraint finished_has_ended check (
    status = 'queued' or status = 'running'
    or (
      finished_at is not null and worker is null and lease_expires_at is null
      and deadline_at is null
    )
  ),
  constraint attempt_is_counted check (0 <= attempt and attempt <= least(max_attempts, fence))
) with (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);

-- A claim probes one (queue, priority) at a time and finds its rows in order.
create index jobs_ready on queue.jobs (queue, priority, available_at, created_at, id)
  where status = 'queued';

-- Never on lease_expires_at: renewals stay HOT.
create index jobs_running on queue.jobs (queue, id) where status = 'running';

create unique index jobs_idempotency on queue.jobs (queue, idempotency_key)
  where idempotency_key is not null;

-- How many wait for another attempt, without a look at the jobs; nothing that never failed is in it.
create index jobs_retrying on queue.jobs (queue, available_at)
  where status = 'queued' and error_type is not null;

-- With what failures are grouped by.
create index jobs_failed on queue.jobs (finished_at, id) include (queue, kind, error_group)
  where status = 'failed';

comment on table queue.jobs is 'One row a job. Written by the functions of schema queue alone.';
