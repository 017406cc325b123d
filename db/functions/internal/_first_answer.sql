-- queue._first_answer: what a worker was told when it settled this claim, from the event of that transition
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
        (event.detail ->> 'available_at')::timestamptz as available_at
      from queue.job_events as event
      where event.job_id = p_job.id
        and event.fence = p_fence
        and event.from_status = 'running'
        and event.to_status <> 'running'
      order by event.id
      limit 1
    ) as settled on true;
$$;

comment on function queue._first_answer is 'The answer given when this claim was settled';
