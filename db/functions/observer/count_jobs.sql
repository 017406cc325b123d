-- queue.count_jobs: how many jobs match a filter of list_jobs
--
-- From the counters when the filter names no more than status, queue and kind: exact as of the last roll_up. Else by
-- looking at 10,000 rows at most; capped says that there may be more.
create or replace function queue.count_jobs(filter jsonb default '{}')
returns table (jobs bigint, capped boolean)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_filter jsonb := coalesce(count_jobs.filter, '{}');
begin
  perform queue._check_job_filter(v_filter);

  if v_filter - '{status,queue,kind}'::text[] = '{}' then
    return query
      select coalesce(sum(depth.jobs), 0)::bigint, false
      from queue._depth(v_filter ->> 'queue', v_filter ->> 'kind') as depth
      where (v_filter ->> 'status' is null or depth.status = v_filter ->> 'status');
  else
    return query
      select cardinality(page.ids)::bigint, page.next_cursor is not null
      from queue._find_jobs(v_filter, null, 10001, false) as page;
  end if;
end;
$$;

comment on function queue.count_jobs is 'How many jobs match a filter; capped';
grant execute on function queue.count_jobs to queue_viewer;
