-- queue.list_jobs: jobs that match a filter, a page at a time
--
-- filter is a JSON object of any of: status, label, queue, kind, priority, worker, error_group, idempotency_key,
-- created_after and created_before (times with their zone), ids, headers and payload (documents that the job's
-- contain). Its status or label chooses the order: queued jobs as they stand in line, failed ones the last to fail
-- first, others newest first. max_jobs from 1 to 200; backwards is the page before the cursor. A page reads at most
-- 10,000 rows: where it stops for that, next_cursor goes on. previous_cursor and next_cursor are the same on every row,
-- null at an end; a page on which nothing matched is one row with a null id. RL400 names an unknown field, or a cursor
-- that does not fit the filter.
create or replace function queue.list_jobs(
  filter jsonb default '{}',
  cursor text default null,
  max_jobs integer default 50,
  backwards boolean default false
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
  previous_cursor text,
  next_cursor text
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_filter jsonb := coalesce(list_jobs.filter, '{}');
begin
  perform queue._check_number('max_jobs', list_jobs.max_jobs, 1, 200);
  perform queue._check_job_filter(v_filter);

  return query
    select
      job.id, job.queue::text, job.kind::text, job.priority::integer, job.status,
      case
        when job.id is not null
          then queue._label(job.status, job.available_at, job.error_type, clock_timestamp())
      end,
      job.attempt, job.max_attempts::integer, job.created_at, job.available_at, job.started_at,
      job.finished_at, job.worker::text, job.lease_expires_at, job.cancel_requested_at,
      job.idempotency_key::text, job.progress::integer, job.progress_message::text,
      job.error_type::text, left(job.error_message, 500), job.error_group, page.previous_cursor, page.next_cursor
    from queue._find_jobs(v_filter, list_jobs.cursor, list_jobs.max_jobs, list_jobs.backwards) as page
      left join lateral unnest(page.ids) with ordinality as found (id, place) on true
      left join queue.jobs as job on job.id = found.id
    order by found.place;
end;
$$;

comment on function queue.list_jobs is 'Jobs that match a filter, a page at a time';
grant execute on function queue.list_jobs to queue_viewer;
