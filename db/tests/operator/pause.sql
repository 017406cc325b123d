begin;
select no_plan();

select queue_tests.enqueue_one('busy', 'busy');
select queue_tests.claim_one('busy');
select queue_tests.enqueue_one('busy', 'busy');
create temp table before as
select jsonb_agg(to_jsonb(job) order by id) as all from queue.jobs as job;

set local rowlock.actor = 'alice';
create temp table answers as select * from queue.pause('busy', 'the database moves');
set local rowlock.actor = '';
select results_eq(
  $$
    select paused_at between now() and clock_timestamp(), paused_until, paused_by, pause_reason
    from answers
  $$,
  $$ values (true, null::timestamptz, 'alice', 'the database moves') $$,
  'The answer says since when, until when, who and why'
);
select results_eq(
  $$
    select paused_at, paused_until, paused_by, pause_reason from queue.policies where queue = 'busy'
  $$,
  $$ select * from answers $$,
  'The policy says the same'
);
select results_eq(
  $$
    select action, actor, session_user_name = session_user, reason, detail
    from queue.audit where queue = 'busy'
  $$,
  $$ values ('pause', 'alice', true, 'the database moves', null::jsonb) $$,
  'The audit says who claims to act, who is signed in, and why'
);
select is(queue_tests.claim_one('busy'), null, 'No job of a paused queue is claimed');
select is(
  (select jsonb_agg(to_jsonb(job) order by id) from queue.jobs as job),
  (select before.all from before),
  'Pausing touches no job'
);
select isnt(queue_tests.enqueue_one('late', 'busy'), null, 'What is enqueued waits');
select is(
  (
    select verdict from queue.renew(
      array[(select min(id) from queue.jobs where kind = 'busy')], '{1}'
    )
  ),
  'held', 'What runs goes on'
);
select results_eq(
  $$ select status from queue.complete((select min(id) from queue.jobs where kind = 'busy'), 1) $$,
  $$ values ('succeeded') $$,
  'and ends'
);
select queue_tests.enqueue_one('free', 'free');
select isnt(queue_tests.claim_one('free'), null, 'Other queues are not paused');

create temp table again as
select * from queue.pause('busy', until => clock_timestamp() + interval '1 hour');
select results_eq(
  $$
    select paused_by = session_user, pause_reason,
      paused_until between now() + interval '1 h' and clock_timestamp() + interval '1 h'
    from queue.policies where queue = 'busy'
  $$,
  $$ values (true, null::text, true) $$,
  'Pausing again replaces who, why and until when'
);
select results_eq(
  $$
    select detail ->> 'until' is not null, actor = session_user
    from queue.audit where queue = 'busy' order by id desc limit 1
  $$,
  $$ values (true, true) $$,
  'The audit says until when; without a claimed actor it is the user who is signed in'
);
update queue.policies
set paused_until = clock_timestamp() - interval '1 second'
where queue = 'busy';
select isnt(queue_tests.claim_one('busy'), null, 'A pause ends by itself when its time has come');

select queue.set_policy('kept', lease => '5 min');
select queue.pause('kept');
select is((select lease from queue.policies where queue = 'kept'), '5 min', 'A policy stays');

select queue.pause('long', repeat('x', 2000));
select is(
  (select length(pause_reason) from queue.policies where queue = 'long'), 1000,
  'A long reason is cut'
);

select throws_ok('select queue.pause(' || arguments || ')', 'RL400', null, rule)
from (
  values
    ('null', 'A queue must be named'),
    ($$'No Name'$$, 'A queue has a name as queues have'),
    ($$'q', until => clock_timestamp()$$, 'The end lies ahead'),
    (
      $$'q', until => clock_timestamp() + interval '11 years'$$, 'The end is at most 10 years ahead'
    ),
    ($$'q', until => 'infinity'$$, 'For ever is said without an end'),
    ($$'q', until => '-infinity'$$, 'The end is no beginning')
) as wrong (arguments, rule);
select is_empty(
  $$ select from queue.policies where queue in ('q', 'No Name') $$,
  'A refused pause leaves no policy'
);

set local role queue_viewer;
select throws_ok($$ select queue.pause('q') $$, '42501', null, 'Who may only look may not pause');
set local role queue_operator;
select lives_ok($$ select queue.pause('q') $$, 'An operator may');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.pause('q') $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
