-- queue._scan_newest: up to 10,000 jobs by id, newest first from before p_id; backwards, oldest first from after it
--
-- Simple enough to be inlined, so that a page that is full stops the scan.
create or replace function queue._scan_newest(p_id bigint, p_backwards boolean)
returns setof queue.jobs
language sql
stable
as $$
  (
    select job.*
    from queue.jobs as job
    where not p_backwards
      and job.id < coalesce(p_id, 9223372036854775807)
    order by job.id desc
    limit 10000
  )
  union all
  (
    select job.*
    from queue.jobs as job
    where p_backwards
      and job.id > p_id
    order by job.id
    limit 10000
  );
$$;

comment on function queue._scan_newest is 'Up to 10,000 jobs from before, or after, an id';
