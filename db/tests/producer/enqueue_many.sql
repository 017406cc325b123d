begin;
select no_plan();

create temp table answers (ordinal integer, job_id bigint, created boolean);

-- What is created ---------------------------------------------------------------------------------

insert into answers
select * from queue.enqueue_many(
  '[
    {"kind": "bare"},
    {"kind": "full", "queue": "mail", "payload": {"a": 1}, "priority": 9, "delay": "5 min",
     "max_attempts": 3, "lease": "90 s", "timeout": "1 h", "idempotency_key": "k",
     "headers": {"h": 1}},
    {"kind": "dated", "available_at": "2001-01-01T00:00:00Z"},
    {"kind": "nulls", "queue": null, "payload": null, "priority": null, "available_at": null,
     "delay": null, "max_attempts": null, "lease": null, "timeout": null, "idempotency_key": null,
     "headers": null}
  ]'
);

select results_eq(
  $$ select answer.ordinal, answer.created, job.kind
     from answers as answer
       join queue_tests.jobs as job on job.id = answer.job_id
     order by answer.ordinal $$,
  $$ values (1, true, 'bare'), (2, true, 'full'), (3, true, 'dated'), (4, true, 'nulls') $$,
  'Answers are numbered from 1 in the order of the array'
);

select results_eq(
  $$
    select
      kind, queue, payload, headers, priority::integer, status, attempt, max_attempts, fence, lease,
      timeout, idempotency_key, available_at - created_at
    from queue_tests.jobs order by id
  $$,
  $$
    values
      ('bare', 'default', '{}'::jsonb, '{}'::jsonb, 5, 'queued', 0, 5, 0, null::interval,
        null::interval, null::text, interval '0'),
      ('full', 'mail', '{"a": 1}', '{"h": 1}', 9, 'queued', 0, 3, 0, '90 s', '1 h', 'k', '5 min'),
      ('dated', 'default', '{}', '{}', 5, 'queued', 0, 5, 0, null, null, null, '0'),
      ('nulls', 'default', '{}', '{}', 5, 'queued', 0, 5, 0, null, null, null, '0')
  $$,
  'Fields are the parameters of enqueue: what is missing or null is the default'
);

select results_eq(
  $$
    select item.kind, item.event, item.from_status, item.to_status, item.attempt, item.fence,
      item.queue, item.actor = session_user, item.detail - 'available_at'
    from queue_tests.job_events as item order by item.job_id
  $$,
  $$
    values
      ('bare', 'enqueued', null::text, 'queued', 0, 0, 'default', true,
        '{"priority": 5, "max_attempts": 5}'::jsonb),
      ('full', 'enqueued', null, 'queued', 0, 0, 'mail', true,
        '{"priority": 9, "max_attempts": 3, "idempotency_key": "k"}'),
      (
        'dated', 'enqueued', null, 'queued', 0, 0, 'default', true,
        '{"priority": 5, "max_attempts": 5}'
      ),
      (
        'nulls', 'enqueued', null, 'queued', 0, 0, 'default', true,
        '{"priority": 5, "max_attempts": 5}'
      )
  $$,
  'Each job has the event that enqueue would have written'
);

select ok(
  (
    select (item.detail ->> 'available_at')::timestamptz = job.available_at
    from queue_tests.job_events as item join queue_tests.jobs as job on job.id = item.job_id
    where job.kind = 'full'
  ),
  'The event of a job due later says when'
);

insert into queue.policies (queue, max_attempts) values ('patient', 40);
select queue.enqueue_many('[{"kind": "of-policy", "queue": "patient"},
  {"kind": "of-job", "queue": "patient", "max_attempts": 2}, {"kind": "of-settings"}]');
select results_eq(
  $$ select kind, max_attempts from queue_tests.jobs where kind like 'of-%' order by id $$,
  $$ values ('of-policy', 40), ('of-job', 2), ('of-settings', 5) $$,
  'max_attempts comes from the element, else the policy of its queue, else the settings'
);

select is_empty(
  $$ select * from queue.enqueue_many('[]') $$,
  'An empty array creates nothing and answers nothing'
);
select results_eq(
  $$
    select count(*)::integer, count(distinct job_id)::integer, bool_and(created)
    from queue.enqueue_many(
      (select jsonb_agg('{"kind": "many"}'::jsonb) from generate_series(1, 1000))
    )
  $$,
  $$ values (1000, 1000, true) $$,
  'A batch of 1,000 is taken'
);

-- Keys --------------------------------------------------------------------------------------------

select queue.enqueue('known', idempotency_key => 'k0');
truncate answers;
insert into answers
select * from queue.enqueue_many(
  '[
    {"kind": "keyed", "idempotency_key": "k1"},
    {"kind": "keyed", "idempotency_key": "k1"},
    {"kind": "known", "idempotency_key": "k0"},
    {"kind": "keyed", "idempotency_key": "k2"},
    {"kind": "keyed", "idempotency_key": "k1", "queue": "elsewhere"},
    {"kind": "keyed"},
    {"kind": "keyed"}
  ]'
);
select results_eq(
  $$ select ordinal, created from answers order by ordinal $$,
  $$ values (1, true), (2, false), (3, false), (4, true), (5, true), (6, true), (7, true) $$,
  'A key known to the table or taken earlier in the array answers created = false'
);
select results_eq(
  $$
    select
      (select job_id from answers where ordinal = 2), (select job_id from answers where ordinal = 3)
  $$,
  $$ select (select job_id from answers where ordinal = 1), queue_tests.job_id('known') $$,
  'A duplicate answers the job which its key stands for'
);
select is(
  (select count(distinct job_id)::integer from answers),
  6,
  'Jobs without a key, or with one in another queue, are different jobs'
);
select is(
  (
    select count(*)::integer from queue_tests.job_events as item
    where item.job_id in (select job_id from answers)
  ),
  6,
  'A duplicate writes no event'
);

select throws_ok(
  $$
    select queue.enqueue_many(
      '[{"kind": "new"}, {"kind": "keyed", "idempotency_key": "k1", "payload": 7}]'
    )
  $$,
  'RL422', null, 'A known key with another payload is RL422'
);
select throws_ok(
  $$
    select queue.enqueue_many(
      '[{"kind": "new", "idempotency_key": "n"}, {"kind": "newer", "idempotency_key": "n"}]'
    )
  $$,
  'RL422', null, 'So is a key used twice in the array for different kinds'
);
select is(
  (select count(*)::integer from queue_tests.jobs where kind in ('new', 'newer')),
  0,
  'A batch is created whole or not at all'
);

-- What is refused ---------------------------------------------------------------------------------

select throws_ok(format('select queue.enqueue_many(%L)', jobs), code, null, rule)
from (
  values
    (null, 'RL400', 'Null is no batch'),
    ('{}', 'RL400', 'An object is no batch'),
    ('null', 'RL400', 'The JSON null is no batch'),
    ('[1]', 'RL400', 'A number is no job'),
    ('[null]', 'RL400', 'The JSON null is no job'),
    ('[[]]', 'RL400', 'An array is no job'),
    ('[{}]', 'RL400', 'A job has a kind'),
    ('[{"kind": "a", "prority": 1}]', 'RL400', 'A field that enqueue does not have is refused'),
    ('[{"kind": "a", "job_id": 1}]', 'RL400', 'No client chooses an id'),
    ('[{"kind": "A"}]', 'RL400', 'A kind is a name'),
    ('[{"kind": "a", "queue": "''; drop table queue.jobs;--"}]', 'RL400', 'SQL is no queue (A16)'),
    ('[{"kind": "a", "priority": 10}]', 'RL400', 'A priority is at most 9'),
    ('[{"kind": "a", "priority": 1e10}]', 'RL400', 'A priority is an integer (A24)'),
    ('[{"kind": "a", "priority": 1.5}]', 'RL400', 'A priority is whole'),
    ('[{"kind": "a", "priority": "NaN"}]', 'RL400', 'NaN is no priority (A24)'),
    ('[{"kind": "a", "max_attempts": 0}]', 'RL400', 'A job has at least one attempt'),
    ('[{"kind": "a", "lease": "soon"}]', 'RL400', 'A lease is an interval'),
    ('[{"kind": "a", "lease": "1000 years"}]', 'RL400', 'A lease is at most a day'),
    ('[{"kind": "a", "timeout": "0"}]', 'RL400', 'A timeout is at least a second'),
    ('[{"kind": "a", "delay": "99999999999 years"}]', 'RL400', 'A delay that overflows is refused'),
    (
      '[{"kind": "a", "delay": "1 s", "available_at": "2027-01-01T00:00:00Z"}]', 'RL400', 'Not both'
    ),
    (
      '[{"kind": "a", "available_at": "2027-01-01T00:00:00"}]', 'RL400',
      'An instant has a time zone'
    ),
    ('[{"kind": "a", "available_at": "2027-01-31"}]', 'RL400', 'A date is no instant'),
    (
      '[{"kind": "a", "available_at": "1/2/2027 12:00Z"}]', 'RL400',
      'A date means the same in every session'
    ),
    ('[{"kind": "a", "available_at": "2027-02-30T00:00:00Z"}]', 'RL400', 'A day exists'),
    ('[{"kind": "a", "available_at": "infinity"}]', 'RL400', 'Infinity is no instant (A26)'),
    (
      '[{"kind": "a", "available_at": "294276-01-01T00:00:00Z"}]', 'RL400',
      'Nor is a far year (A26)'
    ),
    ('[{"kind": "a", "idempotency_key": ""}]', 'RL400', 'A key is not empty'),
    ('[{"kind": "a", "headers": [1]}]', 'RL400', 'Headers are an object'),
    ('[{"kind": "a", "payload": 1e400}]', 'RL400', 'A payload has no number beyond a double'),
    (jsonb_build_array(jsonb_build_object('kind', 'a', 'payload', repeat('x', 1048576)))::text,
      'RL413', 'A payload is at most 1 MiB (A19)'),
    ((select jsonb_agg('{"kind": "a"}'::jsonb) from generate_series(1, 1001))::text,
      'RL400', 'A batch is at most 1,000 jobs')
) as wrong (jobs, code, rule);

select throws_like(
  $$ select queue.enqueue_many('[{"kind": "a"}, {"kind": "a"}, {"kind": "a", "priority": 10}]') $$,
  'jobs: element 3: priority 10%',
  'The message names the element and the field'
);
select throws_ok(
  $$
    select queue.enqueue_many('[{"kind": "a"}, {"kind": "a", "lease": "1 s", "delay": "soon"}]')
  $$,
  'RL400', 'jobs: element 2: delay ''soon'' is no interval', 'also where it is not of its type'
);
select is(
  (select count(*)::integer from queue_tests.jobs where kind = 'a'),
  0,
  'A refused batch leaves no row'
);

select lives_ok(
  format($$ select queue.enqueue_many('[{"kind": "zoned", "available_at": "%s"}]') $$, instant),
  format('%s is an instant', instant)
)
from unnest('{
  2027-01-31T12:00:00Z, 2027-01-31t12:00z, 2027-01-31 12:00:00.123456+00:00,
  2027-01-31T12:00:00-0300, 2027-01-31T12:00:00 +02
}'::text[]) as instant;
select queue.enqueue_many(
  jsonb_build_array(
    jsonb_build_object(
      'kind', 'ahead',
      'available_at',
      to_char(now() at time zone 'utc' + interval '1 day', 'YYYY-MM-DD"T"HH24:MI:SS.US-03:00')
    )
  )
);
select is(
  (select available_at from queue_tests.jobs where kind = 'ahead'),
  now() + interval '27 hours',
  'The offset counts, to the microsecond'
);

set transaction read only;
select throws_ok(
  $$ select queue.enqueue_many('[{"kind": "late"}]') $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
