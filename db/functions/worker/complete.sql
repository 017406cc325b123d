-- queue.complete: running -> succeeded
--
-- The holder of the current claim finishes its job and stores the result (JSON up to 1 MiB, else RL413). A worker whose
-- claim was taken away gets RL409: another claim owns the job now. Asked again with the same token after an
-- unknown outcome, the first answer comes back. A requested cancel does not matter any more.
create or replace function queue.complete(
  job_id bigint,
  fence integer,
  result json default null
)
returns table (id bigint, status text, attempt integer, available_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_job queue.jobs := queue._lock_claim(complete.job_id, complete.fence, 'complete');
begin
  if v_job.settled_fence = complete.fence then
    return query select answer.* from queue._first_answer(v_job, complete.fence) as answer;
    return;
  end if;

  v_job.result := queue._result(complete.result);
  v_job.error_type := null;
  v_job.error_message := null;
  v_job.error_group := null;

  v_job := queue._finish(v_job, 'succeeded', 'succeeded', queue._transition_time(), 'complete');
  return query select v_job.id, v_job.status, v_job.attempt, v_job.available_at;
end;
$$;

comment on function queue.complete is 'running -> succeeded, by the holder of the claim';
grant execute on function queue.complete to queue_worker;
