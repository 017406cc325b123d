-- queue._counters: the rollups of one grain of a stretch of time, of one queue or kind or of all
--
-- Of all, one row stands for every queue and kind. Each of its slots is a probe of its own, so that the rows of other
-- queues are not read; which queues have a kind, the counts in all know. Callers turn sequential scans off.
create or replace function queue._counters(
  p_grain text,
  p_since timestamptz,
  p_until timestamptz,
  p_queue text,
  p_kind text
)
returns setof queue.rollups
language sql
stable
as $$
  select rollup.*
  from (
      select
        case when p_queue is null and p_kind is null then p_grain || '_of_all' else p_grain end as grain,
        case
          when p_queue is not null then array[p_queue]
          when p_kind is null then array['']
          else array(
            select distinct ever.queue
            from queue.rollups as ever
            where ever.grain = 'ever'
              and ever.at = timestamptz 'epoch'
              and ever.kind = p_kind
          )
        end as queues,
        case p_grain
          when 'minute' then interval '1 minute'
          when 'five_minutes' then '5 minutes'
          when 'hour' then '1 hour'
        end as width
    ) as asked
    cross join unnest(asked.queues) as named (queue)
    cross join generate_series(
      date_bin(asked.width, p_since, timestamptz 'epoch'), p_until - interval '1 microsecond', asked.width
    ) as slot (at)
    cross join lateral (
      select counted.*
      from queue.rollups as counted
      where counted.grain = asked.grain
        and counted.at = slot.at
        and counted.queue = named.queue
        and (p_kind is null or counted.kind = p_kind)
      offset 0
    ) as rollup;
$$;

comment on function queue._counters is 'The rollups of a stretch of time, of one queue or kind or of all';
