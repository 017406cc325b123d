-- queue._job_matches: does a job match a filter of list_jobs
--
-- other_priority, not_asked and not_due are bulk's own: what it has changed matches no more.
create or replace function queue._job_matches(p_job queue.jobs, p_filter jsonb, p_now timestamptz)
returns boolean
language sql
stable
as $$
  select (p_filter ->> 'status' is null or p_job.status = p_filter ->> 'status')
    and (
      p_filter ->> 'label' is null
      or queue._label(p_job.status, p_job.available_at, p_job.error_type, p_now)
        = p_filter ->> 'label'
    )
    and (p_filter ->> 'queue' is null or p_job.queue = p_filter ->> 'queue')
    and (p_filter ->> 'kind' is null or p_job.kind = p_filter ->> 'kind')
    and (p_filter ->> 'priority' is null or p_job.priority::text = p_filter ->> 'priority')
    and (p_filter ->> 'other_priority' is null or p_job.priority::text <> p_filter ->> 'other_priority')
    and (p_filter -> 'not_asked' is null or p_job.cancel_requested_at is null or p_job.status <> 'running')
    and (p_filter -> 'not_due' is null or p_job.available_at > p_now or p_job.status <> 'queued')
    and (p_filter ->> 'worker' is null or p_job.worker = p_filter ->> 'worker')
    and (p_filter ->> 'error_group' is null or p_job.error_group = p_filter ->> 'error_group')
    and (
      p_filter ->> 'idempotency_key' is null
      or p_job.idempotency_key = p_filter ->> 'idempotency_key'
    )
    and (
      p_filter ->> 'created_after' is null
      or p_job.created_at >= (p_filter ->> 'created_after')::timestamptz
    )
    and (
      p_filter ->> 'created_before' is null
      or p_job.created_at < (p_filter ->> 'created_before')::timestamptz
    )
    and (p_filter -> 'ids' is null or p_filter -> 'ids' @> to_jsonb(p_job.id))
    and (p_filter -> 'headers' is null or p_job.headers @> (p_filter -> 'headers'))
    and (p_filter -> 'payload' is null or p_job.payload @> (p_filter -> 'payload'));
$$;

comment on function queue._job_matches is 'Does a job match a filter of list_jobs';
