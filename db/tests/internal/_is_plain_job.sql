begin;
select no_plan();

create temp table jobs as
select given.plain, given.what, job.*
from (
  values
    (true, 'a kind alone', '{"kind": "a"}'),
    (
      true,
      'all that is plain',
      '{"kind": "a", "payload": {"n": 1}, "queue": "q", "priority": 9, "idempotency_key": "k",
        "headers": {}}'
    ),
    (true, 'the longest names', format('{"kind": "%s", "queue": "%1$s"}', repeat('a', 63))),
    (true, 'the longest key', format('{"kind": "a", "idempotency_key": "%s"}', repeat('k', 255))),
    (true, 'a document of 200 bytes', format('{"kind": "a", "payload": "%s"}', repeat('x', 198))),
    (false, 'a larger one', format('{"kind": "a", "payload": "%s"}', repeat('x', 199))),
    (false, 'no kind', '{}'),
    (false, 'an empty kind', '{"kind": ""}'),
    (false, 'a kind that is no name', '{"kind": "A"}'),
    (false, 'a long kind', format('{"kind": "%s"}', repeat('a', 64))),
    (false, 'a queue that is no name', '{"kind": "a", "queue": "-"}'),
    (false, 'a long queue', format('{"kind": "a", "queue": "%s"}', repeat('a', 64))),
    (false, 'a priority out of range', '{"kind": "a", "priority": 10}'),
    (false, 'an empty key', '{"kind": "a", "idempotency_key": ""}'),
    (false, 'a long key', format('{"kind": "a", "idempotency_key": "%s"}', repeat('k', 256))),
    (false, 'an instant', '{"kind": "a", "available_at": "2027-01-01T00:00:00Z"}'),
    (false, 'a delay', '{"kind": "a", "delay": "1 s"}'),
    (false, 'attempts', '{"kind": "a", "max_attempts": 1}'),
    (false, 'a lease', '{"kind": "a", "lease": "1 min"}'),
    (false, 'a timeout', '{"kind": "a", "timeout": "1 min"}'),
    (false, 'headers', '{"kind": "a", "headers": {"trace": "1"}}')
) as given (plain, what, document)
  cross join lateral jsonb_to_record(given.document::jsonb) as job (
    kind text, payload jsonb, queue text, priority integer, available_at timestamptz,
    delay interval, max_attempts integer, lease interval, timeout interval,
    idempotency_key text, headers jsonb
  );

select is(
  coalesce(
    queue._is_plain_job(
      kind, payload, queue, priority, available_at, delay, max_attempts, lease, timeout,
      idempotency_key,
      headers
    ),
    false
  ),
  plain,
  what
)
from jobs;
select lives_ok(
  format(
    'select queue._check_job(%L, %L, %L, %L, null, null, null, null, null, %L, %L, now())',
    kind, coalesce(payload, '{}'), coalesce(queue, 'default'), priority, idempotency_key,
    coalesce(headers, '{}')
  ),
  'What is plain passes the closer look too: ' || what
)
from jobs where plain;
create function pg_temp.plan() returns text language plpgsql as $$
declare
  v_line text;
  v_plan text := '';
begin
  for v_line in
    explain (verbose)
    select queue._is_plain_job(
      kind, payload, queue, priority, available_at, delay, max_attempts, lease, timeout,
      idempotency_key, headers
    )
    from jobs
  loop
    v_plan := v_plan || v_line;
  end loop;
  return v_plan;
end $$;
select unalike(
  pg_temp.plan(), '%_is_plain_job%', 'It is put into the caller''s expression, not called'
);

select * from finish();
rollback;
