-- queue._settle_one: one outcome of settle by itself, in a subtransaction of its own
create or replace function queue._settle_one(p_outcome json)
returns table (job_id bigint, fence integer, verdict text, reason text)
language plpgsql
set enable_seqscan = off
set jit = off
as $$
declare
  v_item record;
  v_job queue.jobs;
  v_message text;
begin
  begin
    job_id := (p_outcome ->> 'job_id')::bigint;
    fence := (p_outcome ->> 'fence')::integer;

    select * into v_item
    from json_to_record(p_outcome) as item (
      outcome text, result json, error_type text, message text, detail json, retry_in interval,
      fatal boolean, delay interval, reason text
    );

    -- Whoever has the row locked is not waited for: a claim that still reads as held is asked about again.
    perform from queue.jobs as job where job.id = _settle_one.job_id for no key update skip locked;
    if not found then
      select job.* into v_job from queue.jobs as job where job.id = _settle_one.job_id;
      verdict := case
        when v_job.status = 'running' and v_job.fence = _settle_one.fence then 'busy'
        when v_job.settled_fence = _settle_one.fence and v_job.settled_as = v_item.outcome then 'accepted'
        else 'lost'
      end;
      return next;
      return;
    end if;

    case v_item.outcome
      when 'complete' then
        perform queue.complete(job_id, fence, v_item.result);
      when 'fail' then
        perform queue.fail(
          job_id, fence, v_item.error_type, v_item.message, v_item.detail, v_item.retry_in,
          v_item.fatal
        );
      when 'snooze' then
        perform queue.snooze(job_id, fence, v_item.delay, v_item.reason);
      when 'release' then
        perform queue.release(job_id, fence, v_item.reason);
      when 'accept_cancel' then
        perform queue.accept_cancel(job_id, fence, v_item.reason);
      else
        raise exception 'outcome % is unknown', coalesce(quote_literal(left(v_item.outcome, 80)), 'null')
          using errcode = 'RL400',
            hint = 'outcome is complete, fail, snooze, release or accept_cancel.';
    end case;

    verdict := 'accepted';
  exception
    when sqlstate 'RL404' or sqlstate 'RL409' then
      verdict := 'lost';
    when transaction_rollback or insufficient_resources or object_not_in_prerequisite_state
      or operator_intervention or system_error or syntax_error_or_access_rule_violation
      or feature_not_supported or internal_error
    then
      raise;  -- The server's trouble, or a migration passing by: it says nothing about this outcome.
    when others then
      get stacked diagnostics v_message = message_text;
      verdict := 'refused';
      reason := case when sqlstate like '22%' then coalesce(queue._misfit(p_outcome), v_message) else v_message end;
  end;
  return next;
end;
$$;

comment on function queue._settle_one is 'One outcome of settle, in a subtransaction of its own';
