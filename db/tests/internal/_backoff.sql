begin;
select no_plan();

select ok(
  (
    select bool_and(
      delay between interval '0.75 s' * least(3600, 2 ^ attempt)
        and interval '1.25 s' * least(3600, 2 ^ attempt)
    )
    from generate_series(1, 30) as attempt,
      generate_series(1, 50) as job,
      queue._backoff(job, attempt, '2 s', '1 h') as delay
  ),
  'The delay is base * 2^(attempt - 1), up to the cap, times 0.75 to 1.25'
);
select is(
  queue._backoff(7, 3, '2 s', '1 h'),
  queue._backoff(7, 3, '2 s', '1 h'),
  'The same job and attempt have the same delay'
);
select isnt(
  queue._backoff(7, 3, '2 s', '1 h'),
  queue._backoff(8, 3, '2 s', '1 h'),
  'Another job has another'
);
select isnt(
  queue._backoff(7, 20, '2 s', '1 h'),
  queue._backoff(7, 21, '2 s', '1 h'),
  'So has another attempt, even at the cap'
);
select cmp_ok(
  (
    select max(jobs)
    from (
        select count(*) as jobs
        from generate_series(1, 10000) as job
        group by width_bucket(extract(epoch from queue._backoff(job, 5, '2 s', '1 h')), 24, 40, 10)
      ) as tenth
  ),
  '<=',
  1500::bigint,
  'A storm spreads: no tenth of the span gets more than 15 % of 10,000 jobs'
);
select ok(
  (
    select bool_and(delay between interval '45 min' and interval '75 min')
    from unnest('{13,46,47,64,1024,1100,2000,100000,2147483647}'::integer[]) as attempt,
      queue._backoff(1, attempt, '2 s', '1 h') as delay
  ),
  'However many the attempts, nothing overflows and the cap holds'
);
select ok(
  queue._backoff(1, 100000, '1 ms', '30 days') between interval '22 days' and interval '38 days',
  'The smallest base reaches the largest cap'
);
select ok(
  queue._backoff(1, 1, '30 days', '1 s') between interval '0.75 s' and interval '1.25 s',
  'A base above the cap is cut to it'
);
select ok(
  queue._backoff(1, 0, '2 s', '1 h') between interval '1.5 s' and interval '2.5 s',
  'Before the first attempt the base is taken'
);
select ok(
  queue._backoff(-9223372036854775808, 1, '2 s', '1 h') > interval '0',
  'Any job id serves'
);

select * from finish();
rollback;
