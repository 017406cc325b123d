begin;
select no_plan();

select results_eq(
  $$ select * from queue.set_settings() $$,
  $$
    values ('lease', '00:01:00'), ('max_attempts', '5'), ('backoff_base', '00:00:02'),
      ('backoff_cap', '01:00:00'), ('finished_retention', '7 days'),
      ('failed_retention', '30 days'),
      ('events_retention', '30 days'), ('tick_interval', '00:00:05'), ('claim_floor', 'true')
  $$,
  'Without arguments it tells the settings, at first the defaults of the design'
);
select is_empty($$ select from queue.audit $$, 'and records nothing');

create temp table answers as
select * from queue.set_settings(
  '{"lease": "2 minutes", "max_attempts": 3, "backoff_base": "00:00:01", "backoff_cap": "PT10S",
    "finished_retention": "1 day", "failed_retention": "2 days", "events_retention": "3 days",
    "tick_interval": "3 s", "claim_floor": false}',
  'a small shop'
);
select results_eq(
  $$ select * from answers $$,
  $$
    values ('lease', '00:02:00'), ('max_attempts', '3'), ('backoff_base', '00:00:01'),
      ('backoff_cap', '00:00:10'), ('finished_retention', '1 day'), ('failed_retention', '2 days'),
      ('events_retention', '3 days'), ('tick_interval', '00:00:03'), ('claim_floor', 'false')
  $$,
  'Every setting can be changed, and the answer is how they are now'
);
select results_eq(
  $$ select action, queue, actor = session_user, reason, detail ->> 'lease' from queue.audit $$,
  $$ values ('set_settings', null::text, true, 'a small shop', '2 minutes') $$,
  'The audit says who, why and what'
);
select results_eq(
  $$
    select step, every
    from queue.steps
    where step in ('reap', 'prune', 'rotate_events')
    order by step
  $$,
  $$
    values ('prune', interval '1 min'), ('reap', interval '3 s'),
      ('rotate_events', interval '1 hour')
  $$,
  'The tick interval is how often claims are reaped'
);
select results_eq(
  $$ select value from queue.set_settings('{"lease": "3 minutes"}') where name = 'tick_interval' $$,
  $$ values ('00:00:03') $$,
  'What is not named stays'
);

select queue_tests.enqueue_one('shop', 'shop');
select results_eq(
  $$ select lease, max_attempts from queue.claim('w', '{shop}') $$,
  $$ values (interval '3 min', 3) $$,
  'They hold for a queue without a policy'
);
select queue.set_policy('apart', lease => '9 min');
select queue_tests.enqueue_one('apart', 'apart');
select results_eq(
  $$ select lease, max_attempts from queue.claim('w', '{apart}') $$,
  $$ values (interval '9 min', 3) $$,
  'and where a policy says nothing'
);
select is(
  nullif(current_setting('rowlock.floors', true), ''), null, 'Without floors a claim remembers none'
);

create temp table settings as select to_jsonb(settings) as all from queue.settings as settings;
select throws_ok(format('select queue.set_settings(%L)', settings), 'RL400', null, rule)
from (
  values
    (null, 'Settings must be given'),
    ('[]', 'Settings are an object'),
    ('"lease"', 'A name is no setting'),
    ('{"leash": "1 min"}', 'An unknown name is told'),
    ('{"system_identifier": 1}', 'What is not for people is unknown'),
    ('{"lease": "soon"}', 'A value has its type'),
    ('{"lease": null}', 'A setting has a value'),
    ('{"lease": "0.5 s"}', 'A lease is at least a second'),
    ('{"lease": "25 h"}', 'A lease is at most 24 hours'),
    ('{"max_attempts": 0}', 'At least one attempt'),
    ('{"max_attempts": 100001}', 'At most 100,000 attempts'),
    ('{"max_attempts": 1e30}', 'A number beyond its type is told'),
    ('{"backoff_base": "0"}', 'A backoff is at least a millisecond'),
    ('{"backoff_base": "1 min"}', 'A backoff starts at its cap at most'),
    ('{"backoff_cap": "31 days"}', 'A cap is at most 30 days'),
    ('{"finished_retention": "59 s"}', 'Finished jobs are kept for a minute at least'),
    ('{"failed_retention": "11 years"}', 'Failed jobs are kept for 10 years at most'),
    ('{"events_retention": "59 s"}', 'Events are kept for a minute at least'),
    ('{"tick_interval": "0.5 s"}', 'A tick comes every second at most'),
    ('{"tick_interval": "61 s"}', 'A tick comes every minute at least'),
    ('{"claim_floor": "maybe"}', 'A switch is on or off'),
    ('{"lease": "4 min", "tick_interval": "61 s"}', 'One that is wrong refuses all')
) as wrong (settings, rule);
select throws_ok(
  $$ select queue.set_settings('{"max_attempts": 7, "lease": "banana"}') $$, 'RL400',
  'lease "banana" cannot be read or is out of range', 'What cannot be read is named'
);
select throws_ok(
  $$ select queue.set_settings('{"tick_interval": "61 s"}') $$, 'RL400',
  'tick_interval 00:01:01 is out of range',
  'and what is out of bounds'
);
select is(
  (select to_jsonb(settings) from queue.settings as settings), (select settings.all from settings),
  'What was refused changed nothing'
);

set local role queue_operator;
select throws_ok($$ select queue.set_settings() $$, '42501', null, 'An operator may not');
set local role queue_admin;
select lives_ok($$ select queue.set_settings('{"lease": "1 min"}') $$, 'An admin may');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.set_settings() $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
