-- queue.release: running -> queued, the attempt given back: a worker shuts down
--
-- The job is claimable again at once. Once a cancel was requested it is cancelled instead. RL409 when the claim was
-- lost; asked again with the same token, the first answer comes back.
create or replace function queue.release(job_id bigint, fence integer, reason text default null)
returns table (id bigint, status text, attempt integer, available_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job queue.jobs := queue._lock_claim(release.job_id, release.fence, 'release');
begin
  if v_job.settled_fence = release.fence then
    return query select answer.* from queue._first_answer(v_job, release.fence) as answer;
    return;
  end if;

  v_job := queue._give_back(v_job, 'released', interval '0', 'release', release.reason);
  return query select v_job.id, v_job.status, v_job.attempt, v_job.available_at;
end;
$$;

comment on function queue.release is 'running -> queued at once, the attempt given back';
grant execute on function queue.release to queue_worker;
