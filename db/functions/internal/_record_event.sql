-- queue._record_event: writes one event, in the transition's own transaction
--
-- p_job is the job as it is after the transition. Claim, settle, enqueue and enqueue_many write the same row in one
-- statement with their jobs. Who acted is the session's user; an actor claimed in rowlock.actor stands before it.
create or replace function queue._record_event(
  p_job queue.jobs,
  p_event text,
  p_from_status text,
  p_at timestamptz,
  p_worker text default null,
  p_detail jsonb default null
)
returns void
language plpgsql
as $$
begin
  insert into queue.job_events (
    at, job_id, attempt, fence, elapsed, event, from_status, to_status, queue, kind, worker, actor,
    detail
  )
  select
    p_at, p_job.id, p_job.attempt, p_job.fence,
    case when p_from_status = 'running' and p_job.status <> 'running' then p_at - p_job.started_at end,
    p_event, p_from_status, p_job.status, p_job.queue, p_job.kind, p_worker, actor.name,
    (
      -- Without nulls at the top; further down they are somebody's own.
      select jsonb_object_agg(part.key, part.value)
      from jsonb_each(
        coalesce(p_detail, '{}') || jsonb_build_object('session_user', actor.session_user_name)
      ) as part
      where part.value <> 'null'
    )
  from queue._actor() as actor;
end;
$$;

comment on function queue._record_event is 'Writes one event in the transition''s transaction';
