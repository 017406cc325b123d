begin;
select no_plan();

create function pg_temp.settle_one(kind text, outcome text, rest text default '')
returns text
language sql
as $$
  select concat_ws(': ', answer.verdict, answer.reason)
  from queue._settle_one(
    format(
      '{"job_id": %s, "fence": %s, "outcome": "%s"%s}',
      queue_tests.job_id(kind), queue_tests.fence(kind), outcome, rest
    )::json
  ) as answer;
$$;
select queue_tests.run_one(kind) from unnest('{a,b,c,d,e,f}'::text[]) as kind;

select is(pg_temp.settle_one('a', 'complete', ', "result": 1'), 'accepted', 'complete settles');
select is(pg_temp.settle_one('b', 'fail', ', "error_type": "E"'), 'accepted', 'fail settles');
select is(pg_temp.settle_one('c', 'snooze', ', "delay": "1 s"'), 'accepted', 'snooze settles');
select is(pg_temp.settle_one('d', 'release'), 'accepted', 'release settles');
select is(pg_temp.settle_one('e', 'accept_cancel'), 'accepted', 'accept_cancel settles');
select results_eq(
  $$ select kind, settled_as from queue_tests.jobs order by kind $$,
  $$
    values ('a', 'complete'), ('b', 'fail'), ('c', 'snooze'), ('d', 'release'),
      ('e', 'accept_cancel'), ('f', null)
  $$,
  'Each as itself'
);
select is(pg_temp.settle_one('a', 'complete'), 'accepted', 'Once more is accepted');
select is(pg_temp.settle_one('a', 'release'), 'lost', 'Another verb is lost');
select is(
  pg_temp.settle_one('f', 'snooze'), 'refused: delay is null',
  'A snooze without delay is refused, and says why'
);
select is(
  pg_temp.settle_one('f', 'snooze', ', "delay": "11 years"'),
  'refused: delay 11 years is out of range', 'So is one too long'
);
select is(
  pg_temp.settle_one('f', 'explode'), 'refused: outcome ''explode'' is unknown',
  'An unknown outcome is refused'
);
select is(
  queue_tests.last_event(queue_tests.job_id('f')), 'claimed queued -> running, attempt 1, fence 1',
  'A refused outcome leaves the claim as it is'
);

select * from finish();
rollback;
