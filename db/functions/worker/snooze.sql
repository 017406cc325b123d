-- queue.snooze: running -> queued, the attempt given back: not yet
--
-- The handler asks to be called again after delay (0 to 10 years). Once a cancel was requested the job is cancelled
-- instead. RL409 when the claim was lost; asked again with the same token, the first answer comes back.
create or replace function queue.snooze(
  job_id bigint,
  fence integer,
  delay interval,
  reason text default null
)
returns table (id bigint, status text, attempt integer, available_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job queue.jobs := queue._lock_claim(snooze.job_id, snooze.fence, 'snooze');
begin
  if v_job.settled_fence = snooze.fence then
    return query select answer.* from queue._first_answer(v_job, snooze.fence) as answer;
    return;
  end if;

  if snooze.delay is null then
    raise exception 'delay is null'
      using errcode = 'RL400', hint = 'Say when to call again: delay is an interval up to 10 years.';
  end if;
  perform queue._check_span('delay', snooze.delay, interval '0', interval '10 years');

  v_job := queue._give_back(v_job, 'snoozed', snooze.delay, 'snooze', snooze.reason);
  return query select v_job.id, v_job.status, v_job.attempt, v_job.available_at;
end;
$$;

comment on function queue.snooze is 'running -> queued later, the attempt given back';
grant execute on function queue.snooze to queue_worker;
