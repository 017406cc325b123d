-- queue.get_job: one job, whole; RL404 when there is none
create or replace function queue.get_job(job_id bigint)
returns table (
  id bigint,
  queue text,
  kind text,
  payload jsonb,
  priority integer,
  status text,
  label text,
  attempt integer,
  max_attempts integer,
  fence integer,
  created_at timestamptz,
  available_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  worker text,
  lease_expires_at timestamptz,
  deadline_at timestamptz,
  cancel_requested_at timestamptz,
  lease interval,
  timeout interval,
  idempotency_key text,
  progress integer,
  progress_message text,
  result jsonb,
  error_type text,
  error_message text,
  error_group text,
  headers jsonb,
  created_by text
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
  return query
    select
      job.id, job.queue::text, job.kind::text, job.payload, job.priority::integer, job.status,
      queue._label(job.status, job.available_at, job.error_type, clock_timestamp()), job.attempt,
      job.max_attempts::integer, job.fence, job.created_at, job.available_at, job.started_at,
      job.finished_at, job.worker::text, job.lease_expires_at, job.deadline_at,
      job.cancel_requested_at, job.lease::interval, job.timeout::interval,
      job.idempotency_key::text, job.progress::integer, job.progress_message::text, job.result,
      job.error_type::text, job.error_message::text, job.error_group, job.headers::jsonb,
      job.created_by
    from queue.jobs as job
    where job.id = get_job.job_id;

  if not found then
    raise exception 'there is no job %', coalesce(get_job.job_id::text, 'null')
      using errcode = 'RL404', hint = 'Finished jobs are removed after their retention.';
  end if;
end;
$$;

comment on function queue.get_job is 'One job, whole; RL404 when there is none';
grant execute on function queue.get_job to queue_viewer;
