-- queue._scan_running: up to 10,000 running jobs, newest first, from before one of them; backwards from after
create or replace function queue._scan_running(p_filter jsonb, p_from queue.jobs, p_backwards boolean)
returns setof queue.jobs
language sql
stable
as $$
  (
    select job.*
    from queue.jobs as job
    where not p_backwards
      and job.status = 'running'
      and job.id < coalesce((p_from).id, 9223372036854775807)
    order by job.id desc
    limit 10000
  )
  union all
  (
    select job.*
    from queue.jobs as job
    where p_backwards
      and job.status = 'running'
      and job.id > (p_from).id
    order by job.id
    limit 10000
  );
$$;

comment on function queue._scan_running is 'Up to 10,000 running jobs from before, or after, an id';
