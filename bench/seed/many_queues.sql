-- A thousand queues with a kind of their own, each with 900 jobs due and 100 for later, and the counters of what went before.
insert into queue.jobs (created_at, available_at, queue, kind, max_attempts)
select
  now() - number * interval '1 s',
  now() - number * interval '1 s' + case when number % 10 = 0 then interval '1 day' else interval '0' end,
  'customer-' || customer, 'work-' || customer, 5
from generate_series(1, 1000) as number, generate_series(1, 1000) as customer;

insert into queue.rollups
select
  'ever', 'epoch', 'customer-' || customer, 'work-' || customer, counted.event, counted.from_status, counted.to_status,
  counted.events, counted.elapsed_seconds, counted.buckets
from generate_series(1, 1000) as customer
  cross join (
    values
      ('enqueued', '', 'queued', 111000, 0, null),
      (
        'claimed', 'queued', 'running', 110000, 825000,
        '{0,0,11000,11000,11000,11000,11000,11000,11000,11000,11000,11000,0,0,0,0,0}'::bigint[]
      ),
      (
        'succeeded', 'running', 'succeeded', 110000, 935000,
        '{0,0,0,0,13750,13750,13750,13750,13750,13750,13750,13750,0,0,0,0,0}'
      )
  ) as counted (event, from_status, to_status, events, elapsed_seconds, buckets);

insert into queue.rollups
select
  'ever_of_all', 'epoch', '', '', ever.event, ever.from_status, ever.to_status, sum(ever.events), sum(ever.elapsed_seconds),
  (
    select array_agg(part.events order by part.bucket)
    from (
        select one.bucket, sum(one.events)::bigint as events
        from queue.rollups as same
          cross join unnest(same.buckets) with ordinality as one (events, bucket)
        where same.event = ever.event
        group by one.bucket
      ) as part
  )
from queue.rollups as ever
group by 5, 6, 7;
