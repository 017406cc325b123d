-- queue.list_jobs: jobs that match a filter, newest first (failed ones by when they failed)
--
-- filter is a JSON object of any of: status, label, queue, kind, worker, error_group, idempotency_key, created_after and created_before (times with
-- zone), payload (a document that the payload contains). max_jobs from 1 to 200. A call reads at most 10,000 rows: next_cursor, the
-- same on every row, goes on from there and is null at the end; a page on which nothing matched is one row with a null id
-- and the cursor. RL400 for an unknown filter or a bad cursor.
create or replace function queue.list_jobs(
  filter jsonb default '{}',
  cursor text default null,
  max_jobs integer default 50
)
returns table (
  id bigint,
  queue text,
  kind text,
  priority integer,
  status text,
  label text,
  attempt integer,
  max_attempts integer,
  created_at timestamptz,
  available_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  worker text,
  lease_expires_at timestamptz,
  cancel_requested_at timestamptz,
  idempotency_key text,
  progress integer,
  progress_message text,
  error_type text,
  error_message text,
  error_group text,
  next_cursor text
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_names constant text[] := array[
    'status', 'label', 'queue', 'kind', 'worker', 'error_group', 'idempotency_key', 'created_after',
    'created_before', 'payload'
  ];
  v_filter jsonb := coalesce(list_jobs.filter, '{}');
  v_now timestamptz := clock_timestamp();
  v_is_dead boolean;
  v_is_running boolean;
  v_before_at timestamptz := timestamptz 'infinity';
  v_before_id bigint := 9223372036854775807;
  v_after timestamptz;
  v_before timestamptz;
begin
  perform queue._check_number('max_jobs', list_jobs.max_jobs, 1, 200);
  if jsonb_typeof(v_filter) <> 'object' or v_filter - v_names <> '{}' then
    raise exception 'filter % is not known', left(v_filter::text, 200)
      using errcode = 'RL400',
        hint = 'filter is a JSON object with some of ' || array_to_string(v_names, ', ') || '.';
  end if;

  begin
    v_after := (v_filter ->> 'created_after')::timestamptz;
    v_before := (v_filter ->> 'created_before')::timestamptz;
    if list_jobs.cursor is not null then
      v_before_at := split_part(list_jobs.cursor, ' ', 1)::timestamptz;
      v_before_id := split_part(list_jobs.cursor, ' ', 2)::bigint;
    end if;
  exception
    when data_exception then
      raise exception 'cursor or time cannot be read: %', sqlerrm
        using errcode = 'RL400', hint = 'Pass next_cursor as it came; times as 2027-01-31T12:00:00Z.';
  end;

  v_is_dead := 'failed' = v_filter ->> 'status' or 'dead' = v_filter ->> 'label';
  v_is_running := 'running' in (v_filter ->> 'status', v_filter ->> 'label');

  return query
    with scanned as materialized (
      (
        select job.*, job.finished_at as sort_at
        from queue.jobs as job
        where v_is_dead
          and job.status = 'failed'
          and (job.finished_at, job.id) < (v_before_at, v_before_id)
        order by job.finished_at desc, job.id desc
        limit 10000
      )
      union all
      (
        select job.*, 'infinity'::timestamptz
        from queue.jobs as job
        where v_is_running
          and not coalesce(v_is_dead, false)
          and job.status = 'running'
          and job.id < v_before_id
        order by job.id desc
        limit 10000
      )
      union all
      (
        select job.*, 'infinity'::timestamptz
        from queue.jobs as job
        where not coalesce(v_is_dead or v_is_running, false)
          and job.id < v_before_id
        order by job.id desc
        limit 10000
      )
    ),
    matched as (
      select
        job.*,
        queue._label(job.status, job.available_at, job.error_type, v_now) as label
      from scanned as job
      where (v_filter ->> 'status' is null or job.status = v_filter ->> 'status')
        and (
          v_filter ->> 'label' is null
          or queue._label(job.status, job.available_at, job.error_type, v_now) = v_filter ->> 'label'
        )
        and (v_filter ->> 'queue' is null or job.queue = v_filter ->> 'queue')
        and (v_filter ->> 'kind' is null or job.kind = v_filter ->> 'kind')
        and (v_filter ->> 'worker' is null or job.worker = v_filter ->> 'worker')
        and (v_filter ->> 'error_group' is null or job.error_group = v_filter ->> 'error_group')
        and (
          v_filter ->> 'idempotency_key' is null
          or job.idempotency_key = v_filter ->> 'idempotency_key'
        )
        and (v_after is null or job.created_at >= v_after)
        and (v_before is null or job.created_at < v_before)
        and (v_filter -> 'payload' is null or job.payload @> (v_filter -> 'payload'))
      order by job.sort_at desc, job.id desc
      limit list_jobs.max_jobs
    ),
    page as (
      select
        case
          when (select count(*) from matched) = list_jobs.max_jobs then (
            select to_json(matched.sort_at) #>> '{}' || ' ' || matched.id
            from matched
            order by matched.sort_at, matched.id
            limit 1
          )
          when (select count(*) from scanned) = 10000 then (
            select to_json(scanned.sort_at) #>> '{}' || ' ' || scanned.id
            from scanned
            order by scanned.sort_at, scanned.id
            limit 1
          )
        end as next_cursor
    )
    select
      job.id, job.queue, job.kind, job.priority::integer, job.status, job.label, job.attempt,
      job.max_attempts, job.created_at, job.available_at, job.started_at, job.finished_at,
      job.worker, job.lease_expires_at, job.cancel_requested_at, job.idempotency_key,
      job.progress::integer, job.progress_message, job.error_type, left(job.error_message, 500),
      job.error_group, page.next_cursor
    from page
      left join matched as job on true
    where job.id is not null or page.next_cursor is not null
    order by job.sort_at desc, job.id desc;
end;
$$;

comment on function queue.list_jobs is 'Jobs that match a filter, a page at a time, newest first';
grant execute on function queue.list_jobs to queue_viewer;
