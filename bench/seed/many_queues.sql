-- A thousand queues with a kind of their own, each with 900 jobs due and 100 for later, and the counters of what went before.
insert into queue.jobs (created_at, available_at, queue, kind, max_attempts)
select
  now() - number * interval '1 s',
  now() - number * interval '1 s' + case when number % 10 = 0 then interval '1 day' else interval '0' end,
  'customer-' || customer, 'work-' || customer, 5
from generate_series(1, 1000) as number, generate_series(1, 1000) as customer;

insert into queue.rollups (grain, at, queue, kind, event, from_status, to_status, bucket, events, elapsed_seconds)
select
  'ever', 'epoch', 'customer-' || customer, 'work-' || customer, counted.event, counted.from_status, counted.to_status,
  bucket, counted.events, bucket * counted.events
from generate_series(1, 1000) as customer
  cross join (
    values
      ('enqueued', '', 'queued', 0, 0, 111000), ('claimed', 'queued', 'running', 3, 12, 11000),
      ('succeeded', 'running', 'succeeded', 5, 12, 13750)
  ) as counted (event, from_status, to_status, first, last, events)
  cross join lateral generate_series(counted.first, counted.last) as bucket;

insert into queue.rollups
select
  'ever_of_all', 'epoch', '', '', ever.event, ever.from_status, ever.to_status, ever.bucket, sum(ever.events),
  sum(ever.elapsed_seconds)
from queue.rollups as ever
group by 5, 6, 7, 8;
