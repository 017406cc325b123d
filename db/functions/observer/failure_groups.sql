-- queue.failure_groups: failed jobs by what went wrong: kind, error type and message but for numbers, ids and quoted
-- words
--
-- Of the 10,000 that failed last (capped says that there are more), of one queue or kind or of all, the largest groups
-- first; max_groups from 1 to 200. last_hour, last_day and last_week count those that failed within. sample_id is the
-- last one, with its message.
create or replace function queue.failure_groups(
  queue text default null,
  kind text default null,
  since timestamptz default null,
  max_groups integer default 50
)
returns table (
  error_group text,
  kind_of_job text,
  error_type text,
  error_message text,
  jobs integer,
  last_hour integer,
  last_day integer,
  last_week integer,
  first_at timestamptz,
  last_at timestamptz,
  sample_id bigint,
  capped boolean
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  perform queue._check_number('max_groups', failure_groups.max_groups, 1, 200);

  return query
    with recent as materialized (
      select job.id, job.queue, job.kind, job.finished_at, job.error_group
      from queue.jobs as job
      where job.status = 'failed'
        and job.finished_at >= coalesce(failure_groups.since, '-infinity')
      order by job.finished_at desc, job.id desc
      limit 10000
    ),
    grouped as (
      select
        recent.error_group,
        count(*)::integer as jobs,
        count(*) filter (where recent.finished_at > v_now - interval '1 hour')::integer as last_hour,
        count(*) filter (where recent.finished_at > v_now - interval '1 day')::integer as last_day,
        count(*) filter (where recent.finished_at > v_now - interval '7 days')::integer as last_week,
        min(recent.finished_at) as first_at,
        max(recent.finished_at) as last_at,
        (array_agg(recent.id order by recent.finished_at desc, recent.id desc))[1] as sample_id
      from recent
      where (failure_groups.queue is null or recent.queue = failure_groups.queue)
        and (failure_groups.kind is null or recent.kind = failure_groups.kind)
      group by recent.error_group
      order by 2 desc, 7 desc
      limit failure_groups.max_groups
    )
    select
      grouped.error_group, sample.kind::text, sample.error_type::text, left(sample.error_message, 500),
      grouped.jobs, grouped.last_hour, grouped.last_day, grouped.last_week, grouped.first_at,
      grouped.last_at, grouped.sample_id, (select count(*) = 10000 from recent)
    from grouped
      join queue.jobs as sample on sample.id = grouped.sample_id
    order by grouped.jobs desc, grouped.last_at desc;
end;
$$;

comment on function queue.failure_groups is 'Failed jobs by what went wrong';
grant execute on function queue.failure_groups to queue_viewer;
