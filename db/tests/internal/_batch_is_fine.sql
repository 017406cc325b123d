begin;
select no_plan();

create function pg_temp.is_fine(jobs jsonb) returns boolean language sql as $$
  select queue._batch_is_fine(
    jobs,
    '{kind,payload,queue,priority,available_at,delay,headers,idempotency_key}',
    '^2[0-9-]*T[0-9:]*Z$'
  );
$$;

select ok(pg_temp.is_fine(jobs::jsonb), rule)
from (
  values
    ('[]', 'No jobs are fine'),
    (
      '[{"kind": "a"}, {"kind": "b", "queue": "q", "priority": 0, "idempotency_key": "k"}]',
      'Plain jobs are'
    ),
    (
      '[{"kind": "a", "delay": "1 s", "headers": {}},
        {"kind": "a", "available_at": "2027-01-01T00:00:00Z"}]',
      'Less plain ones too'
    )
) as fine (jobs, rule);
select ok(not pg_temp.is_fine(jobs::jsonb), rule)
from (
  values
    ('[1]', 'A number is not'),
    ('[{"kind": "a"}, {}]', 'Nor is one job without kind among others'),
    ('[{"kind": "A"}]', 'Nor a wrong kind'),
    (format('[{"kind": "%s"}]', repeat('a', 64)), 'Nor a long one'),
    ('[{"kind": "a", "queue": ""}]', 'Nor a wrong queue'),
    (format('[{"kind": "a", "queue": "%s"}]', repeat('a', 64)), 'Nor a long one'),
    ('[{"kind": "a", "priority": 10}]', 'Nor a wrong priority'),
    ('[{"kind": "a", "priority": "high"}]', 'Nor a word for one'),
    ('[{"kind": "a", "idempotency_key": ""}]', 'Nor an empty key'),
    (format('[{"kind": "a", "idempotency_key": "%s"}]', repeat('a', 256)), 'Nor a long one'),
    ('[{"kind": "a", "color": 1}]', 'Nor an unknown field'),
    ('[{"kind": "a", "available_at": "2027-01-01"}]', 'Nor an instant in other words'),
    ('[{"kind": "a", "headers": []}]', 'Nor headers that are no object'),
    ('[{"kind": "a", "payload": 1e400}]', 'Nor a payload that no client can read')
) as wrong (jobs, rule);

select * from finish();
rollback;
