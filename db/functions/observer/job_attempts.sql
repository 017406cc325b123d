-- queue.job_attempts: one row a claim of a job: who held it, how it ended, with what error; the first 1,000
--
-- outcome is the event that ended the claim, null while it runs. elapsed is how long it ran.
create or replace function queue.job_attempts(job_id bigint)
returns table (
  fence integer,
  attempt integer,
  worker text,
  started_at timestamptz,
  ended_at timestamptz,
  outcome text,
  elapsed interval,
  error_type text,
  error_message text,
  error_detail jsonb,
  retry_at timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    select
      claimed.fence, claimed.attempt, claimed.worker, claimed.at, ended.at, ended.event::text,
      ended.elapsed, ended.detail ->> 'error_type', ended.detail ->> 'error_message',
      ended.detail -> 'error_detail', (ended.detail ->> 'available_at')::timestamptz
    from queue.job_events as claimed
      left join lateral (
        select event.at, event.event, event.elapsed, event.detail
        from queue.job_events as event
        where event.job_id = claimed.job_id
          and event.fence = claimed.fence
          and event.from_status = 'running'
          and event.to_status <> 'running'
        order by event.id
        limit 1
      ) as ended on true
    where claimed.job_id = job_attempts.job_id
      and claimed.event = 'claimed'
    order by claimed.id
    limit 1000;
end;
$$;

comment on function queue.job_attempts is 'One row a claim of a job: who held it and how it ended';
grant execute on function queue.job_attempts to queue_viewer;
