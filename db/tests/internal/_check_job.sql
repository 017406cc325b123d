begin;
select no_plan();

-- What enqueue and enqueue_many refuse is tested with them; here is what only the check itself can
-- be asked.
select lives_ok(
  $$
    select queue._check_job('a', null, null, null, null, null, null, null, null, null, null, now())
  $$,
  'Null is fine for all but the kind'
);
select lives_ok(
  $$
    select queue._check_job(
      'a', '{}', 'q', 5, now() + interval '10 years', null, 1, '1 s', '1 s', 'k', '{}', now()
    )
  $$,
  'The last instant is ten years after the one given as now'
);
select throws_ok(
  $$
    select queue._check_job(
      'a', '{}', 'q', 5, now() + interval '10 years 1 us', null, 1, '1 s', '1 s', 'k', '{}', now()
    )
  $$,
  'RL400', null, 'And none after it'
);
select throws_like(
  format('select queue._check_job(%s, now())', args),
  message,
  'The message names ' || split_part(message, ' ', 1)
)
from (
  values
    ($$'A', '{}', 'q', 5, null, null, 1, null, null, null, '{}'$$, 'kind ''A'' is not a name'),
    ($$'a', '{}', 'Q', 5, null, null, 1, null, null, null, '{}'$$, 'queue ''Q'' is not a name'),
    (
      $$'a', '1e400', 'q', 5, null, null, 1, null, null, null, '{}'$$,
      'payload holds a number beyond%'
    ),
    ($$'a', '{}', 'q', 12, null, null, 1, null, null, null, '{}'$$, 'priority 12 is out of range'),
    (
      $$'a', '{}', 'q', 5, 'infinity', null, 1, null, null, null, '{}'$$,
      'available_at infinity is out of range'
    ),
    (
      $$'a', '{}', 'q', 5, null, '20 years', 1, null, null, null, '{}'$$,
      'delay 20 years is out of range'
    ),
    (
      $$'a', '{}', 'q', 5, null, null, 0, null, null, null, '{}'$$, 'max_attempts 0 is out of range'
    ),
    (
      $$'a', '{}', 'q', 5, null, null, 1, '2 days', null, null, '{}'$$,
      'lease 2 days is out of range'
    ),
    (
      $$'a', '{}', 'q', 5, null, null, 1, null, '8 days', null, '{}'$$,
      'timeout 8 days is out of range'
    ),
    (
      $$'a', '{}', 'q', 5, null, null, 1, null, null, '', '{}'$$, 'idempotency_key has 0 characters'
    ),
    ($$'a', '{}', 'q', 5, null, null, 1, null, null, null, '7'$$, 'headers is a JSON number')
) as wrong (args, message);

select * from finish();
rollback;
