-- queue.resume: jobs of a queue are claimed again
--
-- Returns whether the queue was paused; resuming one that was not, or whose pause has run out, changes nothing for
-- workers and is not recorded. Wakes idle workers.
create or replace function queue.resume(queue text, reason text default null)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_was_paused boolean;
begin
  perform queue._check_name('queue', resume.queue);

  select policy.paused_until > v_now or policy.paused_until is null into v_was_paused
  from queue.policies as policy
  where policy.queue = resume.queue
    and policy.paused_at is not null
  for no key update;
  v_was_paused := coalesce(v_was_paused, false);

  update queue.policies as policy
  set paused_at = null,
      paused_until = null,
      paused_by = null,
      pause_reason = null
  where policy.queue = resume.queue
    and policy.paused_at is not null;

  if v_was_paused then
    perform queue._record_action('resume', resume.queue, resume.reason);
    perform queue._wake(resume.queue, v_now, v_now);
  end if;

  return v_was_paused;
end;
$$;

comment on function queue.resume is 'Jobs of the queue are claimed again';
grant execute on function queue.resume to queue_operator;
