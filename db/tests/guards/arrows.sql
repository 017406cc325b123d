begin;
select no_plan();

-- Each function that makes a transition, called on a job in each status, and what comes of it: the
-- one event it writes, as '<event> -> <status>'; 'first answer' where it repeats one; 'nothing'; or
-- an SQLSTATE.
create temp table arrows (
  call text, queued text, running text, succeeded text, failed text, cancelled text
);
insert into arrows
values
  ('claim(''w'', array[QUEUE])', 'claimed -> running', 'nothing', 'nothing', 'nothing', 'nothing'),
  ('progress(ID, FENCE, 10)', 'nothing', 'progressed -> running', 'nothing', 'nothing', 'nothing'),
  ('complete(ID, FENCE)', 'RL409', 'succeeded -> succeeded', 'first answer', 'RL409', 'RL409'),
  (
    'fail(ID, FENCE, ''E'')', 'RL409', 'retry_scheduled -> queued', 'RL409', 'first answer', 'RL409'
  ),
  (
    'fail(ID, FENCE, ''E'', fatal => true)', 'RL409', 'failed -> failed', 'RL409', 'first answer',
    'RL409'
  ),
  ('snooze(ID, FENCE, ''1 s'')', 'RL409', 'snoozed -> queued', 'RL409', 'RL409', 'RL409'),
  ('release(ID, FENCE)', 'RL409', 'released -> queued', 'RL409', 'RL409', 'RL409'),
  ('accept_cancel(ID, FENCE)', 'RL409', 'cancelled -> cancelled', 'RL409', 'RL409', 'RL409'),
  ('settle(''[{"job_id": ID, "fence": FENCE, "outcome": "complete"}]'')',
    'nothing', 'succeeded -> succeeded', 'nothing', 'nothing', 'nothing'),
  ('settle(''[{"job_id": ID, "fence": FENCE, "outcome": "fail"}]'')',
    'nothing', 'retry_scheduled -> queued', 'nothing', 'nothing', 'nothing'),
  ('settle(''[{"job_id": ID, "fence": FENCE, "outcome": "snooze", "delay": "1 s"}]'')',
    'nothing', 'snoozed -> queued', 'nothing', 'nothing', 'nothing'),
  ('settle(''[{"job_id": ID, "fence": FENCE, "outcome": "release"}]'')',
    'nothing', 'released -> queued', 'nothing', 'nothing', 'nothing'),
  ('settle(''[{"job_id": ID, "fence": FENCE, "outcome": "accept_cancel"}]'')',
    'nothing', 'cancelled -> cancelled', 'nothing', 'nothing', 'nothing'),
  ('reap()', 'nothing', 'lease_expired -> queued', 'nothing', 'nothing', 'nothing'),
  (
    'cancel(ID)', 'cancelled -> cancelled', 'cancel_requested -> running', 'RL409', 'RL409', 'RL409'
  ),
  ('retry(ID)', 'RL409', 'RL409', 'RL409', 'retried -> queued', 'retried -> queued'),
  ('run_now(ID)', 'made_due -> queued', 'RL409', 'RL409', 'RL409', 'RL409'),
  ('reprioritize(ID, 9)', 'reprioritized -> queued', 'RL409', 'RL409', 'RL409', 'RL409'),
  ('discard(ID)', 'RL409', 'RL409', 'discarded -> gone', 'discarded -> gone', 'discarded -> gone'),
  ('prune()', 'nothing', 'nothing', 'gone', 'gone', 'gone');

create function pg_temp.attempt(call text, status text) returns text language plpgsql as $$
declare
  v_id bigint := queue_tests.one_in(status);
  v_before jsonb;
  v_after jsonb;
  v_state text;
begin
  -- run_now finds a job due later, reap a lease that is over, prune what is past its retention.
  if call like 'run_now%' and status = 'queued' then
    update queue.jobs as job
    set available_at = clock_timestamp() + interval '1 hour'
    where job.id = v_id;
  elsif call = 'reap()' then
    perform queue_tests.expire_lease(v_id) where status = 'running';
  elsif call = 'prune()' then
    perform queue_tests.age(v_id, '40 days');
  end if;

  v_before := queue_tests.everything(v_id);
  begin
    execute format(
      'select queue.%s',
      replace(
        replace(replace(call, 'ID', v_id::text), 'FENCE', (v_before #>> '{job,fence}')),
        'QUEUE', quote_literal(status)
      )
    );
  exception
    when others then
      v_state := sqlstate;
  end;
  v_after := queue_tests.everything(v_id);
  delete from queue.jobs as job where job.id = v_id;

  return case
    when v_state is not null and v_after = v_before then v_state
    when v_state is not null then v_state || ' and a change'
    when v_after = v_before
      then case
        when call ~ '^(complete|fail|snooze|release|accept_cancel)' then 'first answer'
        else 'nothing'
      end
    when jsonb_array_length(v_after -> 'events') = jsonb_array_length(v_before -> 'events')
      and v_after -> 'job' = 'null' then 'gone'
    when jsonb_array_length(v_after -> 'events') <> jsonb_array_length(v_before -> 'events') + 1
      then 'other than one event'
    when v_after #>> '{events,-1,from_status}' <> status then 'an event from another status'
    when v_after #>> '{events,-1,to_status}' <> coalesce(v_after #>> '{job,status}', 'gone')
      then 'an event that the row belies'
    else format('%s -> %s', v_after #>> '{events,-1,event}', v_after #>> '{events,-1,to_status}')
  end;
end;
$$;

select is(
  pg_temp.attempt(arrow.call, asked.status),
  asked.outcome,
  format('%s of a %s job: %s', arrow.call, asked.status, asked.outcome)
)
from arrows as arrow,
  lateral (
    values
      ('queued', arrow.queued), ('running', arrow.running), ('succeeded', arrow.succeeded),
      ('failed', arrow.failed), ('cancelled', arrow.cancelled)
  ) as asked (status, outcome);

-- The arrows that depend on more than the status.
create function pg_temp.ends(kind text, call text) returns text language plpgsql as $$
begin
  execute format('select queue.%s', replace(call, 'ID', queue_tests.job_id(kind)::text));
  return queue_tests.last_event(queue_tests.job_id(kind));
end;
$$;
select queue_tests.run_one('unwanted-' || n, timeout => '1 h') from generate_series(1, 7) as n;
select queue.cancel(queue_tests.job_id('unwanted-' || n)) from generate_series(1, 7) as n;
select queue_tests.expire_lease(queue_tests.job_id('unwanted-6'));
select is(
  pg_temp.ends('unwanted-' || number, call),
  format('%s running -> %s, attempt 1, fence 1', event, status),
  format('Once a cancel was requested, %s ends in %s', split_part(call, '(', 1), status)
)
from (
  values
    (1, 'complete(ID, 1)', 'succeeded', 'succeeded'),
    (2, 'fail(ID, 1, ''E'')', 'cancelled', 'cancelled'),
    (3, 'snooze(ID, 1, ''1 s'')', 'cancelled', 'cancelled'),
    (4, 'release(ID, 1)', 'cancelled', 'cancelled'),
    (5, 'accept_cancel(ID, 1)', 'cancelled', 'cancelled'), (6, 'reap()', 'cancelled', 'cancelled'),
    (7, 'cancel(ID)', 'cancel_requested', 'running')
) as asked (number, call, event, status);

select queue_tests.run_one('last', max_attempts => 1);
select queue_tests.run_one('timed', timeout => '1 min');
select queue_tests.run_one('last-timed', max_attempts => 1, timeout => '1 min');
select queue_tests.age(queue_tests.job_id(kind), '2 min')
from unnest('{last,timed,last-timed}'::text[]) as kind;
select * from queue.reap();
select is(
  queue_tests.last_event(queue_tests.job_id(kind)),
  event || ', attempt 1, fence 1',
  format('reap of %s: %s', kind, event)
)
from (
  values ('last', 'lease_expired running -> failed'), ('timed', 'timed_out running -> queued'),
    ('last-timed', 'timed_out running -> failed')
) as reaped (kind, event);

select * from finish();
rollback;
