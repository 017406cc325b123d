-- queue._bulk_one: one job of bulk, in a subtransaction of its own; what changed meanwhile is skipped, with the reason
create or replace function queue._bulk_one(
  p_action text,
  p_job_id bigint,
  p_arguments jsonb,
  p_delay interval,
  p_reason text
)
returns table (outcome text, note text)
language plpgsql
set enable_seqscan = off
set jit = off
as $$
begin
  -- What is to go is also left to a producer that was told it by its key.
  if p_action = 'discard' then
    perform from queue.jobs as job where job.id = p_job_id for update skip locked;
  else
    perform from queue.jobs as job where job.id = p_job_id for no key update skip locked;
  end if;
  if not found then
    outcome := 'skipped';
    note := 'another session has it locked, or it is gone';
    return next;
    return;
  end if;

  begin
    case p_action
      when 'retry' then
        perform queue.retry(
          p_job_id, coalesce((p_arguments ->> 'extra_attempts')::integer, 1), p_delay, p_reason
        );
      when 'cancel' then
        perform queue.cancel(p_job_id, p_reason);
      when 'run_now' then
        perform queue.run_now(p_job_id, p_reason);
      when 'reprioritize' then
        perform queue.reprioritize(p_job_id, (p_arguments ->> 'priority')::integer, p_reason);
      when 'discard' then
        perform queue.discard(p_job_id, p_reason);
    end case;
    outcome := 'changed';
  exception
    when sqlstate 'RL409' or sqlstate 'RL400' then
      outcome := 'skipped';
      note := sqlerrm;
  end;
  return next;
end;
$$;

comment on function queue._bulk_one is 'One job of bulk, in a subtransaction of its own';
