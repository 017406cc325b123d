-- queue.claim: queued -> running
--
-- Hands up to max_jobs (1 to 1,000) due jobs to a worker, each under a new fence and a lease. Queues (1 to 32) are
-- served in the order given, each exactly by priority desc, available_at, created_at, id; paused ones are passed by.
-- Returns no row when nothing is due. worker is an id of 1 to 128 characters, fresh for each process. lease is a
-- duration: renew within it. Answers about a job carry (job_id, fence). Never waits for another session.
create or replace function queue.claim(
  worker text,
  queues text[] default '{default}',
  max_jobs integer default 1
)
returns table (
  job_id bigint,
  fence integer,
  queue text,
  kind text,
  payload jsonb,
  attempt integer,
  max_attempts integer,
  lease interval,
  timeout interval,
  headers jsonb,
  created_at timestamptz,
  available_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_floors jsonb;
  v_now timestamptz;
  v_queue text;
  v_policy record;
  v_ctids tid[];
  v_left integer := coalesce(claim.max_jobs, 1);
begin
  perform queue._require_writable();
  perform queue._check_queues(claim.queues);
  if claim.worker is null or length(claim.worker) not between 1 and 128 then
    raise exception 'worker has % characters', coalesce(length(claim.worker), 0)
      using errcode = 'RL400', hint = 'worker is an id of 1 to 128 characters.';
  end if;
  perform queue._check_number('max_jobs', v_left, 1, 1000);

  if (select settings.claim_floor from queue.settings as settings) then
    v_floors := queue._refresh_floors(claim.queues);
  end if;

  v_now := clock_timestamp();

  foreach v_queue in array claim.queues loop
    select policy.paused, policy.lease, policy.timeout into v_policy
    from queue._policy(v_queue, v_now) as policy;

    continue when v_policy.paused;

    v_ctids := queue._pick(
      v_queue,
      v_left,
      v_now,
      coalesce(
        (v_floors #>> array[v_queue, 'floors'])::bigint[],
        '{0,0,0,0,0,0,0,0,0,0}'
      )
    );

    continue when cardinality(v_ctids) = 0;

    return query
      with claimed as (
        update queue.jobs as job
        set status = 'running',
            attempt = job.attempt + 1,
            fence = job.fence + 1,
            worker = claim.worker,
            started_at = v_now,
            lease_expires_at = least(
              v_now + coalesce(job.lease, v_policy.lease),
              v_now + coalesce(job.timeout, v_policy.timeout) + interval '10 seconds'
            ),
            deadline_at = v_now + coalesce(job.timeout, v_policy.timeout),
            progress = null,
            progress_message = null
        where job.ctid = any (v_ctids)
        returning
          job.id, job.fence, job.queue, job.kind, job.payload, job.attempt, job.max_attempts,
          job.lease, job.timeout, job.headers, job.created_at, job.available_at, job.priority
      ),
      recorded as (
        insert into queue.job_events (
          at, job_id, attempt, fence, elapsed, event, from_status, to_status, queue, kind, worker
        )
        select
          v_now, claimed.id, claimed.attempt, claimed.fence, v_now - claimed.available_at, 'claimed',
          'queued', 'running', claimed.queue, claimed.kind, claim.worker
        from claimed
      )
      select
        claimed.id, claimed.fence, claimed.queue::text, claimed.kind::text, claimed.payload,
        claimed.attempt, claimed.max_attempts::integer, coalesce(claimed.lease, v_policy.lease),
        coalesce(claimed.timeout, v_policy.timeout), claimed.headers::jsonb, claimed.created_at,
        claimed.available_at
      from claimed
      order by claimed.priority desc, claimed.available_at, claimed.created_at, claimed.id;

    v_left := v_left - cardinality(v_ctids);
    exit when v_left = 0;
  end loop;
end;
$$;

comment on function queue.claim is 'queued -> running: due jobs, in order, each under a new fence';
grant execute on function queue.claim to queue_worker;
