begin;
select no_plan();

select is(queue.resume('never'), false, 'A queue without a policy was not paused');
select queue.set_policy('policy', lease => '5 min');
select is(queue.resume('policy'), false, 'nor was one that has only a policy');
select is_empty(
  $$ select from queue.audit where action = 'resume' $$, 'Nothing changed, nothing is recorded'
);

select queue_tests.enqueue_one('busy', 'busy');
select queue.set_policy('busy', lease => '5 min');
select queue.pause('busy', 'moving house');
create temp table before as select jsonb_agg(to_jsonb(job)) as all from queue_tests.jobs as job;
set local rowlock.actor = 'bob';
select is(queue.resume('busy', 'moved'), true, 'It says that the queue was paused');
set local rowlock.actor = '';
select results_eq(
  $$
    select num_nulls(paused_at, paused_until, paused_by, pause_reason), lease
    from queue_tests.policies where queue = 'busy'
  $$,
  $$ values (4, interval '5 min') $$,
  'Nothing of the pause is left, and the policy stays'
);
select results_eq(
  $$
    select actor, session_user_name = session_user, reason, detail
    from queue.audit where action = 'resume' and queue = 'busy'
  $$,
  $$ values ('bob', true, 'moved', null::jsonb) $$,
  'The audit says who and why'
);
select is(
  (select jsonb_agg(to_jsonb(job)) from queue_tests.jobs as job), (select before.all from before),
  'Resuming touches no job'
);
select isnt(queue_tests.claim_one('busy'), null, 'Jobs are claimed again');
select is(queue.resume('busy'), false, 'Resuming again says that it was not paused');

select queue.pause('ended', until => clock_timestamp() + interval '1 hour');
update queue.policies set paused_until = clock_timestamp() - interval '1 s' where queue = 'ended';
select is(queue.resume('ended'), false, 'A pause that has run out is none');
select is(
  (select paused_at from queue_tests.policies where queue = 'ended'), null,
  'and is forgotten all the same'
);
select queue.pause('ahead', until => clock_timestamp() + interval '1 hour');
select is(queue.resume('ahead'), true, 'One that has not is ended');

select throws_ok($$ select queue.resume(null) $$, 'RL400', null, 'A queue must be named');
select throws_ok($$ select queue.resume('No Name') $$, 'RL400', null, 'by a name as queues have');

set local role queue_viewer;
select throws_ok($$ select queue.resume('q') $$, '42501', null, 'Who may only look may not resume');
set local role queue_operator;
select lives_ok($$ select queue.resume('q') $$, 'An operator may');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.resume('q') $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
