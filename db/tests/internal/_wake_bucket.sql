begin;
select no_plan();

select ok(
  (
    select bool_and(queue._wake_bucket('queue-' || n) between 0 and 63)
    from generate_series(1, 1000) as n
  ),
  'However many queues there are, there are 64 locks'
);
select is(
  (
    select count(distinct queue._wake_bucket('queue-' || n))::integer
    from generate_series(1, 1000) as n
  ),
  64,
  'Queues spread over all of them'
);
select is(
  queue._wake_bucket('default'), queue._wake_bucket('default'), 'A queue always has the same'
);

select * from finish();
rollback;
