-- queue.stand_by: an idle worker asks to be woken
--
-- Takes the wake locks of the queues exclusively, for the session, so that whoever makes a job claimable sends NOTIFY
-- rowlock with the queue's name. The session must LISTEN on rowlock already (RL400), must claim once more after this,
-- and must never enqueue itself. covered: every lock is held, by this session or another idle worker, which passes it
-- on. uncovered: a producer's open transaction is in the way; poll briskly and ask again.
create or replace function queue.stand_by(queues text[] default '{default}')
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bucket integer;
  v_verdict text := 'covered';
begin
  perform queue._check_queues(stand_by.queues);
  if not exists (select from pg_listening_channels() as channel where channel = 'rowlock') then
    raise exception 'this session does not listen'
      using errcode = 'RL400',
        hint = 'Run LISTEN rowlock first, commit it, and stand by on the same session.';
  end if;

  for v_bucket in
    select distinct queue._wake_bucket(named.queue)
    from unnest(stand_by.queues) as named (queue)
    except
    select held.bucket from queue._wake_holders() as held where held.pid = pg_backend_pid()
  loop
    if not pg_try_advisory_lock(queue._wake_space(), v_bucket)
      and not exists (select from queue._wake_holders() as held where held.bucket = v_bucket)
    then
      v_verdict := 'uncovered';
    end if;
  end loop;

  return v_verdict;
end;
$$;

comment on function queue.stand_by is 'An idle worker takes the wake locks: covered or uncovered';
grant execute on function queue.stand_by to queue_worker;
