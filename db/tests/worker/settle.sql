begin;
select no_plan();

-- The token of a job, as the head of an outcome.
create function pg_temp.outcome(kind text, outcome text, rest jsonb default '{}')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'job_id', queue_tests.job_id(outcome.kind),
    'fence', queue_tests.fence(outcome.kind),
    'outcome', outcome.outcome
  ) || outcome.rest;
$$;

create temp table verdicts (job_id bigint, fence integer, verdict text, reason text);

-- One of each -------------------------------------------------------------------------------------

select queue_tests.run_one(kind, max_attempts => 3)
from unnest('{done,silent,flaky,hopeless,later,given-back,unwanted}'::text[]) as kind;

insert into verdicts
select * from queue.settle(
  json_build_array(
    pg_temp.outcome('done', 'complete', '{"result": {"ok": [1]}}'),
    pg_temp.outcome(
      'flaky', 'fail',
      '{"error_type": "E", "message": "m", "detail": {"d": 1}, "retry_in": "5 min"}'
    ),
    pg_temp.outcome('silent', 'complete'),
    pg_temp.outcome('hopeless', 'fail', '{"error_type": "E", "fatal": true}'),
    pg_temp.outcome('later', 'snooze', '{"delay": "2 h", "reason": "closed"}'),
    pg_temp.outcome('given-back', 'release', '{"reason": "shutdown"}'),
    pg_temp.outcome('unwanted', 'accept_cancel', '{"reason": "asked"}')
  )
);
select results_eq(
  $$
    select job.kind, verdict.fence, verdict.verdict, verdict.reason
    from verdicts as verdict join queue_tests.jobs as job on job.id = verdict.job_id order by job.id
  $$,
  $$
    values ('done', 1, 'accepted', null::text), ('silent', 1, 'accepted', null),
      ('flaky', 1, 'accepted', null),
      ('hopeless', 1, 'accepted', null), ('later', 1, 'accepted', null),
      ('given-back', 1, 'accepted', null),
      ('unwanted', 1, 'accepted', null)
  $$,
  'Outcomes of every kind are accepted in one call'
);
select results_eq(
  $$
    select kind, status, attempt, settled_fence, settled_as, result, error_type, error_message
    from queue_tests.jobs order by id
  $$,
  $$
    values
      ('done', 'succeeded', 1, 1, 'complete', '{"ok": [1]}'::jsonb, null::text, null::text),
      ('silent', 'succeeded', 1, 1, 'complete', null, null, null),
      ('flaky', 'queued', 1, 1, 'fail', null, 'E', 'm'),
      ('hopeless', 'failed', 1, 1, 'fail', null, 'E', ''),
      ('later', 'queued', 0, 1, 'snooze', null, null, null),
      ('given-back', 'queued', 0, 1, 'release', null, null, null),
      ('unwanted', 'cancelled', 1, 1, 'accept_cancel', null, null, null)
  $$,
  'Each has done to its job what the function of its name does'
);
select results_eq(
  $$
    select kind, event, from_status, to_status, attempt, fence, worker
    from queue_tests.job_events where from_status = 'running' order by job_id
  $$,
  $$
    values
      ('done', 'succeeded', 'running', 'succeeded', 1, 1, 'tester'),
      ('silent', 'succeeded', 'running', 'succeeded', 1, 1, 'tester'),
      ('flaky', 'retry_scheduled', 'running', 'queued', 1, 1, 'tester'),
      ('hopeless', 'failed', 'running', 'failed', 1, 1, 'tester'),
      ('later', 'snoozed', 'running', 'queued', 0, 1, 'tester'),
      ('given-back', 'released', 'running', 'queued', 0, 1, 'tester'),
      ('unwanted', 'cancelled', 'running', 'cancelled', 1, 1, 'tester')
  $$,
  'Each has written the one event of its transition'
);
select results_eq(
  $$
    select kind, num_nulls(worker, lease_expires_at, deadline_at),
      finished_at is not distinct from (
        select max(item.at) from queue_tests.job_events as item
        where item.job_id = job.id and item.to_status not in ('queued', 'running')
      )
    from queue_tests.jobs as job order by id
  $$,
  $$
    values ('done', 3, true), ('silent', 3, true), ('flaky', 3, true), ('hopeless', 3, true),
      ('later', 3, true),
      ('given-back', 3, true), ('unwanted', 3, true)
  $$,
  'None has a worker or a lease any more, and those that ended know when'
);
select ok(
  (
    select item.elapsed = job.finished_at - job.started_at
    from queue_tests.jobs as job join queue_tests.job_events as item on item.job_id = job.id
    where job.kind = 'done' and item.event = 'succeeded'
  ),
  'The event of a success says how long the attempt ran'
);

-- Repeated, stale, unknown ------------------------------------------------------------------------

create temp table before as
select id, queue_tests.everything(id) as everything from queue_tests.jobs;
select results_eq(
  $$
    select job.kind, answer.verdict
    from queue.settle(
      json_build_array(
        pg_temp.outcome('done', 'complete', '{"result": "another"}'),
        pg_temp.outcome('flaky', 'fail', '{"error_type": "another"}'),
        pg_temp.outcome('later', 'snooze', '{"delay": "1 s"}'),
        pg_temp.outcome('given-back', 'release'),
        pg_temp.outcome('unwanted', 'accept_cancel'),
        pg_temp.outcome('hopeless', 'complete'),
        pg_temp.outcome('silent', 'fail', '{"error_type": "E"}')
      )
    ) as answer join queue_tests.jobs as job on job.id = answer.job_id order by job.id
  $$,
  $$
    values ('done', 'accepted'), ('silent', 'lost'), ('flaky', 'accepted'), ('hopeless', 'lost'),
      ('later', 'accepted'), ('given-back', 'accepted'), ('unwanted', 'accepted')
  $$,
  'What was settled before is accepted again by the same verb, and lost by another'
);
select results_eq(
  $$
    select fence, verdict from queue.settle(
      json_build_array(
        pg_temp.outcome('given-back', 'complete', '{"fence": 2}'),
        pg_temp.outcome('given-back', 'complete', '{"fence": 0}'),
        pg_temp.outcome('given-back', 'fail', '{"fence": 0}'),
        '{"job_id": -1, "fence": 1, "outcome": "complete"}'::json,
        '{"job_id": -1, "fence": 1, "outcome": "release"}'::json
      )
    )
  $$,
  $$ values (2, 'lost'), (0, 'lost'), (1, 'lost'), (0, 'lost'), (1, 'lost') $$,
  'A fence never given, a stale one and an unknown job are lost'
);
select is_empty(
  $$ select id from before where everything <> queue_tests.everything(id) $$,
  'None of that changes a row or writes an event'
);

select queue_tests.claim_one('given-back', 'w-2');
select results_eq(
  $$
    select fence, verdict from queue.settle(
      json_build_array(
        pg_temp.outcome('given-back', 'complete', '{"fence": 1}'),
        pg_temp.outcome('given-back', 'release', '{"fence": 1}'),
        pg_temp.outcome('given-back', 'complete'),
        pg_temp.outcome('given-back', 'complete'),
        pg_temp.outcome('given-back', 'fail')
      )
    )
  $$,
  $$ values (1, 'lost'), (2, 'accepted'), (2, 'accepted'), (1, 'lost'), (2, 'lost') $$,
  'Of two different answers for one claim in a batch one is accepted'
);

-- Poison and its neighbours -----------------------------------------------------------------------

select queue_tests.run_one('n' || n) from generate_series(1, 4) as n;
select queue_tests.run_one('p' || n) from generate_series(1, 9) as n;
truncate verdicts;
insert into verdicts
select * from queue.settle(
  (
    '[' || array_to_string(
      array[
        pg_temp.outcome('n1', 'complete', '{"result": 1}')::text,
        replace(
          pg_temp.outcome('p1', 'complete', '{"result": "?"}')::text, '"?"', '{"a\u0000": "\ud800"}'
        ),
        replace(pg_temp.outcome('p2', 'complete', '{"result": "?"}')::text, '"?"', '1e1000000'),
        replace(
          pg_temp.outcome('p3', 'complete', '{"result": "?"}')::text,
          '"?"', repeat('[', 3000) || repeat(']', 3000)
        ),
        pg_temp.outcome('p4', 'complete', jsonb_build_object('result', repeat('x', 2000000)))::text,
        pg_temp.outcome('n2', 'complete', '{"result": 2}')::text,
        replace(
          pg_temp.outcome('p5', 'fail', '{"message": "?"}')::text, '?', '\u0000\udfff\" ''; drop'
        ),
        pg_temp.outcome(
          'p6', 'fail', jsonb_build_object('error_type', 'E', 'message', repeat('é', 1000000))
        )::text,
        replace(
          pg_temp.outcome('p7', 'fail', '{"error_type": "E", "detail": "?"}')::text, '"?"',
          '[-1e1000000]'
        ),
        pg_temp.outcome('p8', 'fail', '{"error_type": "E", "retry_in": "soon"}')::text,
        pg_temp.outcome('p9', 'release', '{"reason": {"why": [1]}}')::text,
        pg_temp.outcome('n3', 'fail', '{"error_type": "E"}')::text,
        pg_temp.outcome('n4', 'release')::text
      ],
      ','
    ) || ']'
  )::json
);
select results_eq(
  $$
    select job.kind, verdict.verdict, job.status
    from verdicts as verdict join queue_tests.jobs as job on job.id = verdict.job_id
    order by job.kind
  $$,
  $$
    values
      ('n1', 'accepted', 'succeeded'), ('n2', 'accepted', 'succeeded'),
      ('n3', 'accepted', 'queued'),
      ('n4', 'accepted', 'queued'),
      ('p1', 'accepted', 'succeeded'), ('p2', 'accepted', 'succeeded'),
      ('p3', 'accepted', 'succeeded'),
      ('p4', 'refused', 'running'), ('p5', 'accepted', 'queued'), ('p6', 'accepted', 'queued'),
      ('p7', 'accepted', 'queued'), ('p8', 'refused', 'running'), ('p9', 'accepted', 'queued')
  $$,
  'Whatever an outcome holds, it is taken or refused, and its neighbours are settled'
);
select results_eq(
  $$
    select kind, left(result::text, 14)
    from queue_tests.jobs
    where kind in ('n1', 'p1', 'p2', 'p3')
    order by kind
  $$,
  $$ values ('n1', '1'), ('p1', '{"a�": "�"}'), ('p2', '"1e1000000"'), ('p3', '"[[[[[[[[[[[[[') $$,
  'Results are cleaned as by complete'
);
select results_eq(
  $$
    select job.kind, verdict.reason
    from verdicts as verdict join queue_tests.jobs as job on job.id = verdict.job_id
    where verdict.verdict = 'refused' order by job.kind
  $$,
  $$
    values ('p4', 'result has 2000002 bytes'), ('p8', 'retry_in ''soon'' is no interval')
  $$,
  'A refused outcome says why, and its job is still held'
);
select results_eq(
  $$
    select verdict from queue.settle(
      json_build_array(
        pg_temp.outcome('p4', 'fail', '{"error_type": "TooLarge", "fatal": true}'),
        pg_temp.outcome('p8', 'fail', '{"error_type": "E"}')
      )
    )
  $$,
  $$ values ('accepted'), ('accepted') $$,
  'So that it can be answered for in another way'
);

select results_eq(
  $$
    select answer.job_id, answer.fence, answer.verdict, answer.reason is not null
    from queue.settle(
      '[1, null, "x", [], {}, {"job_id": -1}, {"job_id": "x", "fence": 1, "outcome": "complete"},
        {"job_id": 99999999999999999999, "fence": 1, "outcome": "complete"},
        {"job_id": -1, "fence": 4294967296, "outcome": "complete"}]'
    ) as answer
  $$,
  $$
    values
      (null::bigint, null::integer, 'refused', true), (null, null, 'refused', true),
      (null, null, 'refused', true),
      (null, null, 'refused', true), (null, null, 'lost', false), (-1, null, 'lost', false),
      (null, null, 'refused', true), (null, null, 'refused', true), (-1, null, 'refused', true)
  $$,
  'What is no outcome is refused, or lost where it names no claim'
);

select queue_tests.run_one('odd');
select results_eq(
  format(
    $$ select verdict, reason from queue.settle(json_build_array(pg_temp.outcome('odd', %L))) $$,
    outcome
  ),
  format($$ values ('refused', %L) $$, reason),
  'An outcome is one of five'
)
from (
  values ('explode', 'outcome ''explode'' is unknown'), (null, 'outcome null is unknown')
) as odd (outcome, reason);

-- The server's trouble ----------------------------------------------------------------------------

create function pg_temp.break() returns trigger language plpgsql as $$
begin
  raise exception 'broken' using errcode = current_setting('test.code');
end;
$$;
create trigger break before update on queue.jobs
for each row when (old.kind = 'brittle') execute function pg_temp.break();
select queue_tests.run_one('sound-' || code), set_config('test.code', code, true)
from unnest('{23514,22023}'::text[]) as code;
insert into queue.jobs (
  created_at, available_at, max_attempts, attempt, fence, status, kind, queue, worker, started_at,
  lease_expires_at
)
values (
  now(), now(), 3, 1, 1, 'running', 'brittle', 'brittle', 'tester', now(), now() + interval '1 h'
);

select results_eq(
  format(
    $$
      select verdict, reason
      from set_config('test.code', %1$L, true),
        queue.settle(
          json_build_array(
            pg_temp.outcome('brittle', 'complete'), pg_temp.outcome('sound-%1$s', 'complete')
          )
        )
    $$,
    code
  ),
  $$ values ('refused', 'broken'), ('accepted', null) $$,
  format('What the row refuses (%s) is refused, and the rest of the batch accepted', code)
)
from unnest('{23514,22023}'::text[]) as code;
select throws_ok(
  format(
    $$
      select verdict
      from set_config('test.code', %1$L, true),
        queue.settle(json_build_array(pg_temp.outcome('brittle', %2$L, '{"error_type": "E"}')))
    $$,
    code, outcome
  ),
  code, null,
  format(
    'Trouble that says nothing about the outcome (%s) is raised, to be asked again: %s', code,
    outcome
  )
)
from unnest('{40001,40P01,53100,55P03,57P03,58030,0A000,42883,XX000}'::text[]) as code,
  unnest('{complete,fail}'::text[]) as outcome;
drop trigger break on queue.jobs;

-- Bounds ------------------------------------------------------------------------------------------

select is_empty($$ select * from queue.settle('[]') $$, 'No outcomes, no answers');
select throws_ok(format('select * from queue.settle(%s)', args), 'RL400', null, rule)
from (
  values
    ('null', 'Null is no batch'),
    ($$'null'$$, 'The JSON null is no batch'),
    ($$'{}'$$, 'An object is no batch'),
    (
      $$(select json_agg(n) from generate_series(1, 1001) as n)$$,
      'A batch is at most 1,000 outcomes'
    )
) as wrong (args, rule);

select queue_tests.enqueue_one('many', 'many') from generate_series(1, 1000);
select results_eq(
  $$
    select verdict, count(*) from queue.settle(
      (select json_agg(json_build_object('job_id', job_id, 'fence', fence, 'outcome', 'complete'))
       from queue.claim('w', '{many}', 1000))
    )
    group by verdict
  $$,
  $$ values ('accepted', 1000::bigint) $$,
  'A batch of 1,000 is taken'
);

set transaction read only;
select throws_ok(
  $$ select * from queue.settle('[]') $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
