-- As _count_events makes them, with one pass for the hours and one for the minutes that are kept, and in the order of time.
create temporary table counted as
select
  grain.name as grain,
  date_trunc(grain.name, event.at, 'UTC') as at,
  event.queue, event.kind, event.event, coalesce(event.from_status, '') as from_status, event.to_status,
  case
    when event.elapsed is not null
      then width_bucket(
        greatest(extract(epoch from event.elapsed)::double precision, 0), queue._bucket_bounds()
      )
  end as bucket,
  count(*) as events,
  coalesce(sum(extract(epoch from event.elapsed)::double precision), 0) as elapsed_seconds
from queue.job_events as event
  cross join (values ('minute', now() - interval '25 hours'), ('hour', '-infinity')) as grain (name, since)
where event.at >= grain.since
group by 1, 2, 3, 4, 5, 6, 7, 8;

insert into counted
select
  'five_minutes', date_bin('5 minutes', counted.at, 'epoch'), counted.queue, counted.kind, counted.event, counted.from_status,
  counted.to_status, counted.bucket, sum(counted.events), sum(counted.elapsed_seconds)
from counted
where counted.grain = 'minute'
group by 2, 3, 4, 5, 6, 7, 8;

insert into counted
select
  'ever', 'epoch', counted.queue, counted.kind, counted.event, counted.from_status, counted.to_status, counted.bucket,
  sum(counted.events), sum(counted.elapsed_seconds)
from counted
where counted.grain = 'hour'
group by 3, 4, 5, 6, 7, 8;

insert into counted
select
  counted.grain || '_of_all', counted.at, '', '', counted.event, counted.from_status, counted.to_status, counted.bucket,
  sum(counted.events), sum(counted.elapsed_seconds)
from counted
group by 1, 2, 5, 6, 7, 8;

insert into queue.rollups
select
  summed.grain, summed.at, summed.queue, summed.kind, summed.event, summed.from_status, summed.to_status,
  summed.events, summed.elapsed_seconds,
  case
    when summed.are_timed
      then array(
        select coalesce(summed.of_buckets[array_position(summed.buckets, every.bucket)], 0)
        from generate_series(1, 17) as every (bucket)
      )
  end
from (
    select
      counted.grain, counted.at, counted.queue, counted.kind, counted.event, counted.from_status, counted.to_status,
      sum(counted.events) as events,
      sum(counted.elapsed_seconds) as elapsed_seconds,
      count(counted.bucket) > 0 as are_timed,
      array_agg(counted.bucket) as buckets,
      array_agg(counted.events) as of_buckets
    from counted
    group by 1, 2, 3, 4, 5, 6, 7
  ) as summed
order by summed.at;

update queue.steps set cursor = pg_current_snapshot()::text where step = 'roll_up';
