begin;
select no_plan();

-- Counters are laid down by hand: two kinds in one queue, one of them in another too, and one thing
-- two days ago.
insert into queue.rollups (
  grain, at, queue, kind, event, from_status, to_status, events, elapsed_seconds, buckets
)
select
  past.grain, date_trunc('hour', now() - past.ago, 'UTC'), past.queue, past.kind, past.event,
  past.from_status,
  past.to_status, past.events, past.seconds,
  case when past.bucket > 0 then array_fill(
    0::bigint, array[past.bucket - 1]
  ) || past.events::bigint || array_fill(
    0::bigint, array[17 - past.bucket]
  ) end
from (
    values
      ('hour', interval '0', 'email', 'send', 'enqueued', '', 'queued', 0, 8, 0),
      ('hour', '0', 'email', 'send', 'claimed', 'queued', 'running', 3, 4, 8),
      ('hour', '0', 'email', 'send', 'succeeded', 'running', 'succeeded', 4, 1, 3),
      ('hour', '0', 'email', 'send', 'failed', 'running', 'failed', 4, 1, 5),
      ('hour', '0', 'email', 'send', 'lease_expired', 'running', 'failed', 4, 1, 100),
      ('hour', '0', 'email', 'send', 'retry_scheduled', 'running', 'queued', 4, 2, 4),
      ('hour', '0', 'email', 'bounce', 'enqueued', '', 'queued', 0, 3, 0),
      ('hour', '0', 'other', 'bounce', 'claimed', 'queued', 'running', 3, 9, 9),
      ('hour', '2 days', 'email', 'send', 'enqueued', '', 'queued', 0, 100, 0),
      ('minute', '0', 'email', 'send', 'enqueued', '', 'queued', 0, 1000, 0)
  ) as past (grain, ago, queue, kind, event, from_status, to_status, bucket, events, seconds);

select results_eq(
  $$ select * from queue.list_kinds('email') $$,
  $$
    values
      (
        'send', 8::bigint, 4::bigint, 1::bigint, 2::bigint, 2::bigint, 1::bigint, interval '2 s',
        interval '3 s'
      ),
      ('bounce', 3, 0, 0, 0, 0, 0, null, null)
  $$,
  'Each kind of a queue is counted by what became of it, with means of what was timed'
);
select results_eq(
  $$ select kind, started from queue.list_kinds() $$,
  $$ values ('bounce', 9::bigint), ('send', 4) $$,
  'Without a queue those of all, the most started first'
);
select is(
  (select enqueued from queue.list_kinds('email', now() - interval '3 days') where kind = 'send'),
  108::bigint,
  'since looks further back'
);
select results_eq(
  $$ select kind from queue.list_kinds(max_kinds => 1) $$, $$ values ('bounce') $$, 'max_kinds cuts'
);
select is_empty(
  $$ select * from queue.list_kinds('unused') $$, 'A queue without jobs has no kinds'
);
select is(
  (select enqueued from queue.list_kinds('email', '0001-01-01Z') where kind = 'send'), 108::bigint,
  'as far as hours are kept, and no row further'
);
select throws_ok(
  $$ select queue.list_kinds('email', '-infinity') $$, 'RL400', null, 'since is an instant'
);
select throws_ok($$ select queue.list_kinds(since => 'infinity') $$, 'RL400', null, 'a finite one');
select throws_ok(
  $$ select queue.list_kinds(since => '294276-12-31Z') $$, 'RL400', null, 'at most 10 years ahead'
);
select throws_ok(
  'select queue.list_kinds(max_kinds => 0)', 'RL400', null, 'max_kinds is at least 1'
);
select throws_ok(
  'select queue.list_kinds(max_kinds => 1001)', 'RL400', null, 'max_kinds is at most 1,000'
);

select * from finish();
rollback;
