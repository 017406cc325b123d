-- queue._find_jobs: one page of the jobs that match a filter, and where the pages before and after it begin
--
-- The filter's status chooses the order: queued jobs as they stand in line, failed ones the last to fail first, others by id, newest
-- first. A page reads 10,000 rows at most; when it ends for that, next goes on from there. ids come in the order shown.
-- A cursor is the order's name and the place of a job in it; backwards is the page that ends before it.
create or replace function queue._find_jobs(
  p_filter jsonb,
  p_cursor text,
  p_max_jobs integer,
  p_backwards boolean
)
returns table (ids bigint[], previous_cursor text, next_cursor text)
language plpgsql
stable
rows 1
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_order text := case
    when p_filter ->> 'status' = 'failed' or p_filter ->> 'label' = 'dead' then 'failed'
    when p_filter ->> 'status' = 'running' or p_filter ->> 'label' = 'running' then 'running'
    when p_filter ->> 'status' = 'queued' or p_filter ->> 'label' in ('ready', 'scheduled', 'retrying')
      then 'queued'
    else 'newest'
  end;
  v_back boolean := coalesce(p_backwards and p_cursor is not null, false);
  v_from queue.jobs;
  v_place text[];
  v_ids bigint[];
  v_last bigint;
begin
  if p_filter ? 'ids' then
    v_ids := array(
      select case when asked::text::numeric between 1 and 9223372036854775807 then asked::text::numeric::bigint end
      from jsonb_array_elements(p_filter -> 'ids') as asked
    );
    ids := array(
      select job.id
      from queue.jobs as job
      where job.id = any (v_ids)
        and queue._job_matches(job, p_filter, v_now)
      order by job.id
      limit p_max_jobs
    );
    return next;
    return;
  end if;

  if p_cursor is not null then
    begin
      v_place := string_to_array(p_cursor, ' ');
      v_from.id := v_place[2]::bigint;
      v_from.finished_at := case when v_order = 'failed' then v_place[3]::timestamptz end;
      if v_order = 'queued' then
        v_from.queue := v_place[3];
        v_from.priority := v_place[4]::smallint;
        v_from.available_at := v_place[5]::timestamptz;
        v_from.created_at := v_place[6]::timestamptz;
      end if;
    exception
      when data_exception then
        v_place := null;
    end;

    if v_place[1] is distinct from v_order or v_from.id is null
      or v_order = 'failed' and v_from.finished_at is null
      or v_order = 'queued' and v_from.created_at is null
    then
      raise exception 'cursor % does not fit the filter', quote_literal(left(p_cursor, 80))
        using errcode = 'RL400', hint = 'Pass a cursor as it came, with the filter it came with.';
    end if;
  end if;

  -- The scan is read once, no further than it takes to fill the page; the place 10,000 rows on is asked for when it did not fill.
  case v_order
    when 'failed' then
      with scan as materialized (
        select place.id, queue._job_matches(place, p_filter, v_now) as matches
        from queue._scan_failed(v_from.finished_at, v_from.id, v_back) as place
      ),
      page as materialized (
        select scan.id from scan where scan.matches limit p_max_jobs
      )
      select
        array(select page.id from page),
        case
          when (select count(*) from page) < p_max_jobs
            then (select scan.id from scan offset 9999 limit 1)
        end
      into ids, v_last;
    when 'running' then
      with scan as materialized (
        select place.id, queue._job_matches(place, p_filter, v_now) as matches
        from queue._scan_running(v_from.id, v_back) as place
      ),
      page as materialized (
        select scan.id from scan where scan.matches limit p_max_jobs
      )
      select
        array(select page.id from page),
        case
          when (select count(*) from page) < p_max_jobs
            then (select scan.id from scan offset 9999 limit 1)
        end
      into ids, v_last;
    when 'queued' then
      with scan as materialized (
        select place.id, queue._job_matches(place, p_filter, v_now) as matches
        from queue._scan_queued(
            v_from.queue, v_from.priority, v_from.available_at, v_from.created_at, v_from.id,
            p_filter ->> 'queue', v_back
          ) as place
      ),
      page as materialized (
        select scan.id from scan where scan.matches limit p_max_jobs
      )
      select
        array(select page.id from page),
        case
          when (select count(*) from page) < p_max_jobs
            then (select scan.id from scan offset 9999 limit 1)
        end
      into ids, v_last;
    else
      with scan as materialized (
        select place.id, queue._job_matches(place, p_filter, v_now) as matches
        from queue._scan_newest(v_from.id, v_back) as place
      ),
      page as materialized (
        select scan.id from scan where scan.matches limit p_max_jobs
      )
      select
        array(select page.id from page),
        case
          when (select count(*) from page) < p_max_jobs
            then (select scan.id from scan offset 9999 limit 1)
        end
      into ids, v_last;
  end case;

  if cardinality(ids) = p_max_jobs then
    v_last := ids[p_max_jobs];
  end if;

  if v_back then
    next_cursor := coalesce(queue._job_place(v_order, ids[1]), p_cursor);
    previous_cursor := queue._job_place(v_order, v_last);
    ids := array(
      select found.id from unnest(ids) with ordinality as found (id, place) order by found.place desc
    );
  else
    previous_cursor := case
      when p_cursor is not null then coalesce(queue._job_place(v_order, ids[1]), p_cursor)
    end;
    next_cursor := queue._job_place(v_order, v_last);
  end if;

  return next;
end;
$$;

comment on function queue._find_jobs is 'One page of the jobs that match a filter, and its cursors';
