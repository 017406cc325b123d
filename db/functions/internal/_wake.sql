-- queue._wake: tells an idle worker, if there is one, that a queue has work
--
-- An idle worker holds its queue's wake lock exclusively (stand_by). Who makes a job claimable tries the same
-- lock, shared, and keeps it until commit: got it, nobody is idle, and none can become idle before the job is
-- visible; refused, somebody is, and is notified at commit. Jobs due later than the longest poll
-- need no word, polling finds them in time. rowlock.notify = off is for two-phase producers.
create or replace function queue._wake(p_queue text, p_available_at timestamptz, p_now timestamptz)
returns void
language plpgsql
as $$
begin
  if p_available_at <= p_now + interval '15 seconds'
    and not pg_try_advisory_xact_lock_shared(queue._wake_space(), queue._wake_bucket(p_queue))
    and coalesce(current_setting('rowlock.notify', true), '') !~* '^(off|false|no|0)$'
  then
    perform pg_notify('rowlock', p_queue);
  end if;
end;
$$;

comment on function queue._wake is 'NOTIFY rowlock if an idle worker stands by for the queue';
