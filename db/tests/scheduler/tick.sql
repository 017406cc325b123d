begin;
select no_plan();

-- A long run of tests has used more transactions than one step of roll_up takes.
update queue.steps set cursor = queue._snapshot()::text where step = 'roll_up';

-- These steps are due, for so long; no other is.
create function pg_temp.due(which text[], ago interval default '1 second')
returns void language sql as $$
  update queue.steps
  set due_at = case
    when step = any (which) then clock_timestamp() - ago * array_position(which, step)
    else clock_timestamp() + interval '30 min'
  end;
$$;
create function pg_temp.expire(n integer)
returns void language plpgsql as $$
begin
  perform queue_tests.enqueue_one('dying', 'dying', max_attempts => 9) from generate_series(1, n);
  for batch in 1..2 loop
    perform claimed.job_id from queue.claim('tester', '{dying}', 1000) as claimed;
  end loop;
  update queue.jobs set lease_expires_at = clock_timestamp() - interval '1 second'
  where status = 'running' and kind = 'dying';
end $$;
create function pg_temp.finish(n integer)
returns void language sql as $$
  insert into queue.jobs (
    created_at, available_at, finished_at, status, max_attempts, attempt, fence, kind
  )
  select now() - interval '1 year', now(), now() - interval '1 year', 'succeeded', 5, 1, 1, 'old'
  from generate_series(1, n);
$$;

select pg_temp.due('{}');
update queue.steps set due_at = clock_timestamp() + interval '2 s' where step = 'reap';
select results_eq(
  $$ select * from queue.tick() $$,
  $$ values (null::text, null::bigint, false, interval '30 s') $$,
  'When nothing is due there is one row all the same; while nothing runs, in half a minute again'
);
select pg_temp.due('{reap}');
select results_eq(
  $$ select step, processed, more from queue.tick() $$, $$ values ('reap', 0::bigint, false) $$,
  'A step that is due is done'
);
select results_eq(
  $$
    select finished_at between now() and clock_timestamp(), processed, failures, error,
      due_at - finished_at between interval '4.5 s' and interval '5 s'
    from queue.steps where step = 'reap'
  $$,
  $$ values (true, 0::bigint, 0, null::text, true) $$,
  'It is recorded, and comes due again after its interval'
);

-- One step a call.
select pg_temp.expire(3);
select pg_temp.finish(2);
select pg_temp.due('{prune,reap}');
select results_eq(
  $$ select step, processed, more from queue.tick() $$, $$ values ('reap', 3::bigint, true) $$,
  'What has been due longest is done first, alone, and more is due'
);
select results_eq(
  $$ select step, processed, more from queue.tick() $$, $$ values ('prune', 2::bigint, false) $$,
  'The next call does the next'
);
select pg_temp.due('{reap,prune,roll_up,rotate_events}');
select results_eq(
  $$ select step, processed, more from queue.tick() $$, $$ values ('reap', 0::bigint, false) $$,
  'Steps that find nothing to do are done in one call'
);
select is_empty(
  $$ select from queue.steps where due_at <= clock_timestamp() $$,
  'and none of them is due any more'
);
select pg_temp.expire(1001);
select pg_temp.due('{reap}');
select results_eq(
  $$ select step, processed, more from queue.tick() $$, $$ values ('reap', 1000::bigint, true) $$,
  'A step is bounded, and says that it has more to do'
);
select results_eq(
  $$ select step, processed, more from queue.tick() $$, $$ values ('reap', 1::bigint, false) $$,
  'which the next call does at once'
);

-- The order.
select pg_temp.finish(1);
select pg_temp.expire(1);
select pg_temp.due('{reap,prune}', '1 second');
select results_eq(
  $$ select step from queue.tick() $$, $$ values ('prune') $$,
  'A reap that is on time waits its turn'
);
select pg_temp.finish(1);
select pg_temp.due('{reap,prune}', '6 seconds');
select results_eq(
  $$ select step from queue.tick() $$, $$ values ('reap') $$,
  'One late by its interval does not, so that no step that is cancelled each time holds it up'
);
select queue.prune();

-- A long table whose rows all stay.
insert into queue.jobs (created_at, available_at, status, max_attempts, kind)
select now() - interval '1 year', now() + interval '1 year', 'queued', 5, 'waiting'
from generate_series(1, 10001);
select pg_temp.due('{prune}');
select results_eq(
  $$ select step, processed, more from queue.tick() $$, $$ values ('prune', 0::bigint, false) $$,
  'A walk that deletes nothing does not go on at once'
);
select ok(
  (
    select due_at < clock_timestamp() + interval '30 s'
      and position > 0
    from queue.steps
    where step = 'prune'
  ),
  'but soon, where it stopped'
);
delete from queue.jobs where kind = 'waiting';

-- The clock steps back by an hour. Those reaped above would be due again on a slow machine.
delete from queue.jobs where kind = 'dying';
select pg_temp.expire(1);
select pg_temp.due('{}');
update queue.steps
set due_at = clock_timestamp() + interval '1 hour',
    finished_at = clock_timestamp() + interval '1 hour';
select results_eq(
  $$ select step, processed from queue.tick() $$, $$ values ('reap', 1::bigint) $$,
  'What was finished in the future is due'
);
select queue.tick();
select results_eq('select step from queue.tick()', 'values (null::text)', 'once');
select is_empty(
  $$
    select
    from queue.steps
    where finished_at > clock_timestamp() or due_at > clock_timestamp() + every
  $$,
  'and then has its dates from the present'
);

-- How long until the next.
delete from queue.jobs;
select queue_tests.run_one('work');
select pg_temp.due('{}');
update queue.steps set due_at = clock_timestamp() + interval '2 s' where step = 'reap';
select ok(
  (select due_in between '1.5 s' and '2 s' from queue.tick()),
  'While something runs, the step that is due next'
);
select queue.complete(queue_tests.job_id('work'), 1);
select ok(
  (select due_in between '1 s' and '2 s' from queue.tick()), 'While events are not counted, too'
);

-- A step that fails.
create function pg_temp.refuse() returns trigger language plpgsql as $$
begin
  raise exception 'the disk is full';
end $$;
create trigger refused before insert on queue.rollups
  for each statement execute function pg_temp.refuse();
select pg_temp.finish(1);
select pg_temp.due('{prune}');
set local client_min_messages = error;
select results_eq(
  $$ select step, processed, more from queue.tick() $$, $$ values ('prune', 0::bigint, false) $$,
  'A step that fails does not fail the call'
);
select results_eq(
  $$
    select failures, error, due_at > clock_timestamp() + interval '59 s'
    from queue.steps
    where step = 'prune'
  $$,
  $$ values (1, 'the disk is full', true) $$,
  'It is recorded and comes due again'
);
select is((select count(*) from queue.jobs where kind = 'old'), 1::bigint, 'What it did is undone');
select results_eq(
  $$
    select status, detail like '%prune failed 1 times: the disk is full%'
    from queue.health()
    where check_name = 'steps'
  $$,
  $$ values ('warn', true) $$,
  'Health shows it'
);
select pg_temp.due('{prune}');
select queue.tick();
select pg_temp.due('{prune}');
select queue.tick();
select is(
  (select status from queue.health() where check_name = 'steps'), 'fail',
  'and alarms at the third time'
);
select pg_temp.due('{reap}');
select results_eq(
  $$ select step from queue.tick() $$, $$ values ('reap') $$, 'Other steps go on'
);
drop trigger refused on queue.rollups;
select pg_temp.due('{prune}');
select results_eq(
  $$ select step, processed from queue.tick() $$, $$ values ('prune', 1::bigint) $$,
  'When it works again'
);
select results_eq(
  $$ select failures, error, processed from queue.steps where step = 'prune' $$,
  $$ values (0, null::text, 1::bigint) $$,
  'the failures are forgotten'
);

-- A job that cannot be reaped.
select pg_temp.expire(2);
create trigger refused before update on queue.jobs for each row
when (old.status = 'running' and old.id % 2 = 0) execute function pg_temp.refuse();
select pg_temp.due('{reap}');
select results_eq(
  $$ select step, processed, more from queue.tick() $$, $$ values ('reap', 1::bigint, false) $$,
  'The others proceed'
);
select results_eq(
  $$ select failures, error from queue.steps where step = 'reap' $$,
  $$ values (1, '1 jobs could not be reaped: the server log says why') $$,
  'and it is recorded'
);

-- A conflict between transactions is no failure of the step.
create or replace function pg_temp.refuse() returns trigger language plpgsql as $$
begin
  raise exception 'conflict' using errcode = '40001';
end $$;
select pg_temp.due('{reap}');
select throws_ok(
  $$ select queue.tick() $$, '40001', null, 'A serialization failure is raised, to be asked again'
);
drop trigger refused on queue.jobs;
set local client_min_messages = notice;

set local role queue_producer;
select throws_ok($$ select queue.tick() $$, '42501', null, 'A producer does not tick');
set local role queue_worker;
select lives_ok($$ select queue.tick() $$, 'A worker may');
set local role queue_operator;
select lives_ok($$ select queue.tick() $$, 'An operator may');
reset role;

set local transaction read only;
select throws_ok($$ select queue.tick() $$, 'RL503', null, 'A read-only transaction is told RL503');

select * from finish();
rollback;
