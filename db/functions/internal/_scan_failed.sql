-- queue._scan_failed: up to 10,000 failed jobs, the last to fail first, from before one of them; backwards from after
create or replace function queue._scan_failed(p_filter jsonb, p_from queue.jobs, p_backwards boolean)
returns setof queue.jobs
language sql
stable
as $$
  (
    select job.*
    from queue.jobs as job
    where not p_backwards
      and job.status = 'failed'
      and (job.finished_at, job.id)
        < (coalesce((p_from).finished_at, 'infinity'), coalesce((p_from).id, 9223372036854775807))
    order by job.finished_at desc, job.id desc
    limit 10000
  )
  union all
  (
    select job.*
    from queue.jobs as job
    where p_backwards
      and job.status = 'failed'
      and (job.finished_at, job.id) > ((p_from).finished_at, (p_from).id)
    order by job.finished_at, job.id
    limit 10000
  );
$$;

comment on function queue._scan_failed is 'Up to 10,000 failed jobs from before, or after, one of them';
