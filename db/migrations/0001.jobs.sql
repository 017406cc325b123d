-- The jobs: one ordinary table, one row a job, its shape in each status held by named rules.

revoke all on schema queue from public;
grant usage on schema queue to queue_producer, queue_worker, queue_viewer, queue_web;
alter default privileges for role queue_owner revoke execute on functions from public;

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
  max_attempts integer not null,
  fence integer not null default 0,
  settled_fence integer,
  priority smallint not null default 5,
  progress smallint,
  status text not null default 'queued',
  queue text not null default 'default',
  kind text not null,
  worker text,
  settled_as text,
  idempotency_key text,
  created_by text not null default session_user,
  lease interval,
  timeout interval,
  payload jsonb not null default '{}',
  headers jsonb not null default '{}',
  progress_message text,
  error_type text,
  error_message text,
  error_group text,
  result jsonb,

  constraint status_is_known
    check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  constraint queued_is_free check (
    status <> 'queued'
    or (worker is null and lease_expires_at is null and deadline_at is null and finished_at is null)
  ),
  constraint queued_has_attempts_left check (status <> 'queued' or attempt < max_attempts),
  constraint queued_is_not_cancelled check (status <> 'queued' or cancel_requested_at is null),
  constraint running_is_leased check (
    status <> 'running'
    or (
      worker is not null and lease_expires_at is not null and started_at is not null
      and finished_at is null
    )
  ),
  constraint finished_has_no_lease check (
    status not in ('succeeded', 'failed', 'cancelled')
    or (
      finished_at is not null and worker is null and lease_expires_at is null
      and deadline_at is null
    )
  ),
  constraint attempt_is_within_max check (0 <= attempt and attempt <= max_attempts),
  constraint max_attempts_in_range check (max_attempts between 1 and 100000),
  constraint fence_counts_attempts check (fence >= attempt),
  constraint priority_in_range check (priority between 0 and 9),
  -- Not {0,62}: bounded repetition makes a regular expression ten times slower, at every update.
  constraint queue_is_a_name check (queue ~ '^[a-z0-9][a-z0-9_.:-]*$' and length(queue) <= 63),
  constraint kind_is_a_name check (kind ~ '^[a-z0-9][a-z0-9_.:-]*$' and length(kind) <= 63),
  constraint worker_fits check (length(worker) between 1 and 128),
  constraint idempotency_key_fits check (length(idempotency_key) between 1 and 255),
  constraint lease_in_range check (lease between interval '1 second' and interval '24 hours'),
  constraint timeout_in_range check (timeout between interval '1 second' and interval '7 days'),
  constraint available_at_is_finite check (isfinite(available_at)),
  constraint headers_are_an_object check (jsonb_typeof(headers) = 'object'),
  constraint progress_in_range check (progress between 0 and 100),
  constraint progress_message_fits check (length(progress_message) <= 1000),
  constraint error_fits check (length(error_type) <= 200 and octet_length(error_message) <= 16384)
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
