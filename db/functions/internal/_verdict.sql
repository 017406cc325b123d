-- queue._verdict: what the holder of a claim should know about it
create or replace function queue._verdict(p_job queue.jobs, p_fence integer, p_now timestamptz)
returns text
language sql
immutable
as $$
  select case
    when p_job.status = 'running' and p_job.fence = p_fence
      then case
        when p_job.cancel_requested_at is not null or p_job.deadline_at <= p_now then 'stop'
        else 'held'
      end
    else 'lost'
  end;
$$;

comment on function queue._verdict is 'held, stop (cancel requested or past the timeout) or lost';
