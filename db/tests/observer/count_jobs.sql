begin;
select no_plan();

-- Counters as roll_up leaves them: 10 came, 4 were claimed, 3 of them succeeded, one of those is
-- pruned.
insert into queue.rollups (grain, at, queue, kind, event, from_status, to_status, events)
values
  ('ever', 'epoch', 'q', 'k', 'enqueued', '', 'queued', 10),
  ('ever', 'epoch', 'q', 'k', 'claimed', 'queued', 'running', 4),
  ('ever', 'epoch', 'q', 'k', 'progressed', 'running', 'running', 9),
  ('ever', 'epoch', 'q', 'k', 'succeeded', 'running', 'succeeded', 3),
  ('ever', 'epoch', 'q', 'k', 'pruned', 'succeeded', 'gone', 1),
  ('ever', 'epoch', 'other', 'k', 'enqueued', '', 'queued', 5);
insert into queue.rollups
select
  'ever_of_all', 'epoch', '', '', ever.event, ever.from_status, ever.to_status, sum(ever.events)
from queue.rollups as ever
group by 5, 6, 7;
prepare of_status as select jobs,
capped from queue.count_jobs(jsonb_build_object('queue', 'q', 'status', $1::text));

select results_eq(
  $$ execute of_status('queued') $$, 'values (6::bigint, false)',
  'Queued are those that came and were not claimed'
);
select results_eq(
  $$ execute of_status('running') $$, 'values (1::bigint, false)',
  'Running are those claimed and not ended'
);
select results_eq(
  $$ execute of_status('succeeded') $$, 'values (2::bigint, false)',
  'What was pruned does not count'
);
select results_eq($$ execute of_status('failed') $$, 'values (0::bigint, false)', 'None is none');
select is((select jobs from queue.count_jobs()), 14::bigint, 'Without a filter all count');
select is(
  (select jobs from queue.count_jobs('{"status": "queued"}')), 11::bigint,
  'Without a queue those of all queues'
);
select is(
  (select jobs from queue.count_jobs('{"kind": "k", "queue": "other"}')), 5::bigint,
  'Queue and kind are counted by counters'
);
select is(
  (select jobs from queue.count_jobs('{"kind": "k"}')), 14::bigint, 'A kind in whatever queue it is'
);
select is((select jobs from queue.count_jobs('{"kind": "l"}')), 0::bigint, 'And none of another');

-- Other filters look at rows.
select queue_tests.enqueue_one('row', 'rows', delay => case when i > 3 then interval '1 hour' end)
from generate_series(1, 8) as i;
select results_eq(
  $$ select jobs, capped from queue.count_jobs('{"queue": "rows", "label": "scheduled"}') $$,
  'values (5::bigint, false)',
  'Labels are counted from rows'
);
select is(
  (select jobs from queue.count_jobs('{"payload": {"a": 1}}')), 0::bigint, 'So are payloads'
);
select throws_ok(
  $$ select queue.count_jobs('{"colour": "red"}') $$, 'RL400', null, 'An unknown filter is refused'
);
select throws_ok(
  $$ select queue.count_jobs('{"status": "lost"}') $$, 'RL400', null, 'An unknown status is refused'
);
select throws_ok($$ select queue.count_jobs('[]') $$, 'RL400', null, 'A filter is an object');

select * from finish();
rollback;
