-- queue._scan_failed: up to 10,000 failed jobs, the last to fail first, from before an instant and id; backwards from after them
create or replace function queue._scan_failed(p_at timestamptz, p_id bigint, p_backwards boolean)
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
        < (coalesce(p_at, 'infinity'), coalesce(p_id, 9223372036854775807))
    order by job.finished_at desc, job.id desc
    limit 10000
  )
  union all
  (
    select job.*
    from queue.jobs as job
    where p_backwards
      and job.status = 'failed'
      and (job.finished_at, job.id) > (p_at, p_id)
    order by job.finished_at, job.id
    limit 10000
  );
$$;

comment on function queue._scan_failed is 'Up to 10,000 failed jobs from before, or after, one of them';
