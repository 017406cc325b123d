-- queue.accept_cancel: running -> cancelled
--
-- The handler stopped: asked by cancel, or of its own accord because the work is pointless. RL409 when the claim
-- was lost; asked again with the same token, the first answer comes back.
create or replace function queue.accept_cancel(
  job_id bigint,
  fence integer,
  reason text default null
)
returns table (id bigint, status text, attempt integer, available_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job queue.jobs := queue._lock_claim(accept_cancel.job_id, accept_cancel.fence, 'accept_cancel');
begin
  if v_job.settled_fence = accept_cancel.fence then
    return query select answer.* from queue._first_answer(v_job, accept_cancel.fence) as answer;
    return;
  end if;

  v_job := queue._finish(
    v_job,
    'cancelled',
    'cancelled',
    queue._transition_time(),
    'accept_cancel',
    jsonb_build_object('reason', queue._cut(accept_cancel.reason, 1000))
  );
  return query select v_job.id, v_job.status, v_job.attempt, v_job.available_at;
end;
$$;

comment on function queue.accept_cancel is 'running -> cancelled, by the holder of the claim';
grant execute on function queue.accept_cancel to queue_worker;
