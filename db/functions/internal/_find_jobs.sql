-- queue._find_jobs: one page of the jobs that match a filter, and where the pages before and after it start
--
-- The filter's status chooses the order: queued jobs as they stand in line, failed ones the last to fail first, others
-- newest first; jobs that the filter names come by id. A page reads p_max_rows at most, up to 10,000; when it ends for
-- that, next goes on from there. ids come in the order shown. A cursor is the order's name and a job's place in it;
-- backwards is the page that ends before it. rows_read is null when the page is full.
create or replace function queue._find_jobs(
  p_filter jsonb,
  p_cursor text,
  p_max_jobs integer,
  p_backwards boolean,
  p_max_rows integer default 10000
)
returns table (ids bigint[], rows_read integer, previous_cursor text, next_cursor text)
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
    when p_filter ? 'ids' then 'ids'
    when queue._wanted_status(p_filter) in ('queued', 'running', 'failed') then queue._wanted_status(p_filter)
    else 'newest'
  end;
  v_back boolean := coalesce(p_backwards and p_cursor is not null, false);
  v_from queue.jobs;
  v_place text[];
  v_last bigint;
begin
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

  -- The scan is read once, no further than it takes to fill the page; how far it came is asked when it did not fill.
  -- It is planned for each filter anew, so that a row costs no more than what the filter has.
  execute format(
    $page$
      with scan as materialized (
        select place.id, queue._job_matches(place, $1, $2) as matches
        from queue.%I($1, $3, $4) as place
        limit $5
      ),
      page as materialized (
        select scan.id from scan where scan.matches limit $6
      )
      select
        array(select page.id from page),
        case when (select count(*) from page) < $6 then (select count(*) from scan) end,
        case
          when (select count(*) from page) < $6
            then (select scan.id from scan offset $5 - 1 limit 1)
        end
    $page$,
    '_scan_' || v_order
  )
  into ids, rows_read, v_last
  using p_filter, v_now, v_from, v_back, p_max_rows, p_max_jobs;

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
