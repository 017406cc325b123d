-- queue._job_place: a job's place in an order of _find_jobs, as a cursor
create or replace function queue._job_place(p_order text, p_job_id bigint)
returns text
language sql
stable
as $$
  select concat_ws(
    ' ',
    p_order,
    job.id,
    case when p_order = 'failed' then to_json(job.finished_at) #>> '{}' end,
    case when p_order = 'queued' then job.queue end,
    case when p_order = 'queued' then job.priority end,
    case when p_order = 'queued' then to_json(job.available_at) #>> '{}' end,
    case when p_order = 'queued' then to_json(job.created_at) #>> '{}' end
  )
  from queue.jobs as job
  where job.id = p_job_id;
$$;

comment on function queue._job_place is 'A job''s place in an order, as a cursor';
