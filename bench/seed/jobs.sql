-- Ids follow time. Of the last third six tenths still wait, of what is older a few, mostly for later.
insert into queue.jobs (
  id, created_at, available_at, started_at, finished_at, lease_expires_at, attempt, max_attempts, fence,
  settled_fence, priority, status, queue, kind, worker, settled_as, idempotency_key, created_by, payload,
  headers, error_type, error_message, error_group, result
)
overriding system value
select
  made.id,
  made.created_at,
  case
    when made.fate in ('scheduled', 'retrying') then now() + made.dice * interval '20 days'
    else made.created_at
  end,
  case when made.attempt > 0 then made.created_at + made.wait end,
  case when made.status in ('succeeded', 'failed', 'cancelled') then made.created_at + made.wait + made.run end,
  case when made.status = 'running' then now() + interval '300 days' end,
  made.attempt,
  5,
  made.attempt,
  case when made.status in ('succeeded', 'failed') then made.attempt end,
  case when made.dice < 0.1 then 9 when made.dice < 0.8 then 5 else made.id % 10 end,
  made.status,
  place.queue,
  place.kind,
  case when made.status = 'running' then 'host-' || made.id % 12 || ':' || made.id % 12 * 7 end,
  case when made.status = 'succeeded' then 'complete' when made.status = 'failed' then 'fail' end,
  case when made.id % 4 = 0 then 'order-' || made.id end,
  'shop',
  jsonb_build_object(
    'user_id', made.id % 50000,
    'order', jsonb_build_object('id', 700000 + made.id, 'total', made.id % 9973, 'currency', 'EUR'),
    'to', 'user' || made.id % 50000 || '@example.com',
    'template', 'order-' || made.id % 7,
    'trace', md5(made.id::text) || md5(made.id::text || 'b'),
    'items', jsonb_build_array('sku-' || made.id % 977, 'sku-' || made.id % 131)
  ),
  case
    when made.id % 3 = 0 then jsonb_build_object('traceparent', '00-' || md5(made.id::text) || '-01')
    else '{}'
  end,
  failed.type,
  failed.message,
  case when failed.type is not null then queue._error_group(place.kind, failed.type, failed.message) end,
  case when made.status = 'succeeded' then jsonb_build_object('sent', true, 'ms', made.id % 800) end
from (
    select
      thrown.*,
      case
        when thrown.fate in ('ready', 'scheduled', 'retrying') then 'queued'
        else thrown.fate
      end as status,
      case thrown.fate
        when 'succeeded' then 1
        when 'running' then 1
        when 'failed' then 5
        when 'retrying' then 1 + (thrown.id % 3)::integer
        else 0
      end as attempt
    from (
        select
          series.id,
          now() - interval '8 days' * (1 - series.id / current_setting('seed.jobs')::float8)
            - interval '1 minute' as created_at,
          rolled.dice,
          floor(power(rolled.popular, 1.6) * 40)::integer as place,
          power(10, rolled.other * 4 - 2.5) * interval '1 second' as wait,
          power(10, rolled.dice * 3 - 2) * interval '1 second' as run,
          case
            when series.id > current_setting('seed.jobs')::float8 * 0.995 and rolled.third < 0.02 then 'running'
            when rolled.dice < 0.0024 then 'failed'
            when rolled.dice < 0.0084 then 'cancelled'
            when series.id > current_setting('seed.jobs')::float8 * 0.7 and rolled.third < 0.6
              then case when rolled.other < 0.85 then 'ready' when rolled.other < 0.97 then 'scheduled' else 'retrying' end
            when rolled.third < 0.029 then case when rolled.other < 0.3 then 'ready' else 'scheduled' end
            else 'succeeded'
          end as fate
        from generate_series(1, current_setting('seed.jobs')::bigint) as series (id)
          cross join lateral (
            select
              random() as dice, random() as other, random() as third, random() as popular
            where series.id > 0
          ) as rolled
      ) as thrown
  ) as made
  join place on place.number = made.place
  left join lateral (
    select
      place.error_type as type,
      case made.id % 3
        when 0 then 'request ' || made.id || ' to "host-' || made.id % 90 || '" timed out after 30 s'
        when 1 then 'card of customer ' || made.id % 50000 || ' was declined: insufficient funds'
        else 'no row ' || md5(made.id::text) || ' in table orders'
      end as message
    where made.status = 'failed' or made.fate = 'retrying'
  ) as failed on true
order by made.id;
