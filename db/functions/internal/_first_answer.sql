-- queue._first_answer: what a worker was told when it settled this claim, from the events of that claim
--
-- Whatever became of the job since. An end leaves available_at as it was when claimed: claimed tells it.
create or replace function queue._first_answer(p_job queue.jobs, p_fence integer)
returns table (id bigint, status text, attempt integer, available_at timestamptz)
language sql
stable
as $$
  select
    p_job.id,
    coalesce(settled.to_status, p_job.status),
    coalesce(settled.attempt, p_job.attempt),
    coalesce(settled.available_at, p_job.available_at)
  from (select) as asked
    left join lateral (
      select
        event.to_status,
        event.attempt,
        coalesce(
          (event.detail ->> 'available_at')::timestamptz,
          -- In UTC, since a day of an interval is not 24 hours everywhere.
          (claimed.at at time zone 'utc' - claimed.elapsed) at time zone 'utc'
        ) as available_at
      from queue.job_events as event
        left join queue.job_events as claimed
          on claimed.job_id = event.job_id
          and claimed.fence = event.fence
          and claimed.event = 'claimed'
      where event.job_id = p_job.id
        and event.fence = p_fence
        and event.from_status = 'running'
        and event.to_status <> 'running'
      order by event.id
      limit 1
    ) as settled on true;
$$;

comment on function queue._first_answer is 'The answer given when this claim was settled';
