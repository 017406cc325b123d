begin;
select no_plan();

-- What it does ------------------------------------------------------------------------------------

select queue_tests.run_one('done', lease => '90 s', timeout => '1 h');
select queue.fail(queue_tests.job_id('done'), 1, 'E', 'first', retry_in => '0');
select queue_tests.claim_one('done', 'w-2');
select queue.progress(queue_tests.job_id('done'), 2, 50, 'half');

select results_eq(
  $$ select * from queue.complete(queue_tests.job_id('done'), 2, '{"ok": true}') $$,
  $$ select id, 'succeeded', 2, available_at from queue_tests.jobs where kind = 'done' $$,
  'The answer is id, status, attempt and available_at'
);
select results_eq(
  $$
    select status, attempt, fence, result, finished_at > started_at, settled_fence, settled_as,
      progress::integer, progress_message
    from queue_tests.jobs where kind = 'done'
  $$,
  $$ values ('succeeded', 2, 2, '{"ok": true}'::jsonb, true, 2, 'complete', 50, 'half') $$,
  'The row is succeeded, with its result and last progress'
);
select is(
  (
    select num_nulls(worker, lease_expires_at, deadline_at, error_type, error_message, error_group)
    from queue_tests.jobs where kind = 'done'
  ),
  6,
  'A succeeded job has no worker, no lease, no deadline and no error any more'
);
select results_eq(
  $$
    select *
    from queue_tests.events(queue_tests.job_id('done'))
    order by fence desc, event desc
    limit 1
  $$,
  $$ values ('succeeded', 'running', 'succeeded', 2, 2, 'w-2', null::jsonb) $$,
  'The event says who completed it, and does not repeat the result'
);
select results_eq(
  $$
    select item.at, item.elapsed from queue_tests.job_events as item
    where item.job_id = queue_tests.job_id('done') and item.event = 'succeeded'
  $$,
  $$ select finished_at, finished_at - started_at from queue_tests.jobs where kind = 'done' $$,
  'The event says when, and how long the attempt ran'
);

select queue_tests.run_one('silent');
select queue.complete(queue_tests.job_id('silent'), 1);
select is(
  (select result from queue_tests.jobs where kind = 'silent'),
  null,
  'Without a result none is stored'
);

-- Fencing -----------------------------------------------------------------------------------------

create temp table before as
select kind, queue_tests.everything(id) as everything from queue_tests.jobs where kind = 'done';

select results_eq(
  $$ select * from queue.complete(queue_tests.job_id('done'), 2, '{"ok": "again"}') $$,
  $$ select id, 'succeeded', 2, available_at from queue_tests.jobs where kind = 'done' $$,
  'Asked again with the same token, the first answer comes back'
);
select throws_ok(
  format('select * from queue.%s', call), 'RL409', null,
  'Another verb for a fence already settled is RL409: ' || call
)
from (
  values
    ($$fail(queue_tests.job_id('done'), 2, 'E')$$),
    ($$snooze(queue_tests.job_id('done'), 2, '1 s')$$),
    ($$release(queue_tests.job_id('done'), 2)$$),
    ($$accept_cancel(queue_tests.job_id('done'), 2)$$)
) as other (call);
select throws_ok(
  format($$ select * from queue.complete(queue_tests.job_id('done'), %s) $$, fence), 'RL409', null,
  rule
)
from (
  values ('1', 'A fence settled by another verb before is stale'),
    ('3', 'A fence never given is lost'),
    ('0', 'Fence 0 is nobody''s'), ('-2', 'So is a negative one'), ('null', 'And none at all')
) as stale (fence, rule);
select is(
  queue_tests.everything(queue_tests.job_id('done')),
  (select everything from before),
  'None of these changes the row or writes an event'
);

select queue_tests.run_one('retaken');
select queue_tests.expire_lease(queue_tests.job_id('retaken'));
select * from queue.reap();
select throws_ok(
  $$ select * from queue.complete(queue_tests.job_id('retaken'), 1) $$, 'RL409', null,
  'A claim that was reaped is lost, though nobody has the job yet'
);
select queue_tests.age(queue_tests.job_id('retaken'), '1 minute');
select queue_tests.claim_one('retaken', 'w-2');
select throws_ok(
  $$ select * from queue.complete(queue_tests.job_id('retaken'), 1) $$, 'RL409', null,
  'A claim that was taken over is lost'
);
select is(
  queue_tests.last_event(queue_tests.job_id('retaken')),
  'claimed queued -> running, attempt 2, fence 2',
  'The stale answer wrote no event'
);

select queue_tests.run_one('overdue');
select queue_tests.expire_lease(queue_tests.job_id('overdue'));
select lives_ok(
  $$ select * from queue.complete(queue_tests.job_id('overdue'), 1) $$,
  'A claim past its lease still stands until the reaper takes it'
);

select queue_tests.run_one('unwanted');
select queue.cancel(queue_tests.job_id('unwanted'));
select results_eq(
  $$ select status from queue.complete(queue_tests.job_id('unwanted'), 1) $$,
  $$ values ('succeeded') $$,
  'A requested cancel does not keep a job from succeeding'
);

select throws_ok(
  $$ select * from queue.complete(-1, 1) $$, 'RL404', null, 'An unknown job is RL404'
);
select throws_ok($$ select * from queue.complete(null, 1) $$, 'RL404', null, 'So is none at all');

-- Results: whatever a program can print -----------------------------------------------------------

create temp table poison (name text, result text, stored text);
insert into poison
values
  ('the JSON null', 'null', 'null'),
  ('a scalar', '7', '7'),
  ('a NUL escape', '{"a": "x\u0000y"}', '{"a": "x\ufffdy"}'),
  ('a NUL escape in a name', '{"\u0000": 1}', '{"\ufffd": 1}'),
  ('half a surrogate pair', '["\ud800", "\uDFFF"]', '["\ufffd", "\ufffd"]'),
  ('a whole pair', '"\ud83d\ude00"', '"😀"'),
  ('an escaped backslash before u0000', '"\\u0000"', '"\\u0000"'),
  ('a number of a million digits', '[1e1000000]', '"[1e1000000]"'),
  ('a number beyond a double', '1e400', '"1e400"'),
  ('deep nesting', repeat('[', 3000) || repeat(']', 3000),
    to_jsonb(repeat('[', 3000) || repeat(']', 3000))::text),
  ('a repeated name', '{"a": 1, "a": 2}', '{"a": 2}');
select queue_tests.run_one('poison-' || row_number() over ()) from poison;
select results_eq(
  format(
    $$ select status from queue.complete(queue_tests.job_id('poison-%s'), 1, %L) $$, number, result
  ),
  $$ values ('succeeded') $$,
  format('A result may hold %s', name)
)
from (select poison.*, row_number() over () as number from poison) as poison;
select results_eq(
  $$ select result from queue_tests.jobs where kind like 'poison-%' order by id $$,
  $$ select stored::jsonb from poison $$,
  'What no jsonb can hold is replaced; what no client could read is kept as a string'
);

select queue_tests.run_one('large');
select throws_ok(
  $$ select queue.complete(queue_tests.job_id('large'), 1, to_json(repeat('x', 2000000))) $$,
  'RL413', null, 'A result of 2 MB is RL413'
);
select throws_ok(
  $$ select queue.complete(queue_tests.job_id('large'), 1, to_json(repeat('x', 1048575))) $$,
  'RL413', null, 'A result is at most 1 MiB'
);
select is(
  queue_tests.last_event(queue_tests.job_id('large')),
  'claimed queued -> running, attempt 1, fence 1',
  'The job is still held, so that its worker can fail it'
);
select lives_ok(
  $$ select queue.complete(queue_tests.job_id('large'), 1, to_json(repeat('x', 1048574))) $$,
  'A result of exactly 1 MiB is taken'
);

select queue_tests.run_one('read-only');
set transaction read only;
select throws_ok(
  $$ select queue.complete(queue_tests.job_id('read-only'), 1) $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
