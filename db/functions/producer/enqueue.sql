-- queue.enqueue: -> queued
--
-- Creates a job, in the caller's transaction: it is claimable when that commits and never was when it rolls back. kind
-- and queue are names (1 to 63 of a-z 0-9 _ . : -); payload is JSON up to 1 MiB; priority 0 to 9, higher first;
-- available_at or delay up to 10 years ahead, the past means now; max_attempts 1 to 100,000; lease 1 s to 24 h; timeout
-- 1 s to 7 days; headers a JSON object up to 16 kB. Null means the default. An idempotency_key (up to 255 characters)
-- that the queue already knows returns that job with created = false; with another kind or payload RL422. RL400 names
-- the field that is out of bounds, RL413 a document that is too large.
create or replace function queue.enqueue(
  kind text,
  payload jsonb default '{}',
  queue text default 'default',
  priority integer default 5,
  available_at timestamptz default null,
  delay interval default null,
  max_attempts integer default null,
  lease interval default null,
  timeout interval default null,
  idempotency_key text default null,
  headers jsonb default '{}'
)
returns table (job_id bigint, created boolean)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_queue text := coalesce(enqueue.queue, 'default');
  v_payload jsonb := coalesce(enqueue.payload, '{}');
  v_now timestamptz := queue._transition_time();
  v_available_at timestamptz;
  v_job queue.jobs;
begin
  if queue._is_plain_job(
    enqueue.kind, v_payload, v_queue, enqueue.priority, enqueue.available_at, enqueue.delay,
    enqueue.max_attempts, enqueue.lease, enqueue.timeout, enqueue.idempotency_key, enqueue.headers
  ) is not true then
    perform queue._check_job(
      enqueue.kind, v_payload, v_queue, enqueue.priority, enqueue.available_at, enqueue.delay,
      enqueue.max_attempts, enqueue.lease, enqueue.timeout, enqueue.idempotency_key,
      enqueue.headers, v_now
    );
  end if;

  v_available_at := greatest(coalesce(enqueue.available_at, v_now + enqueue.delay, v_now), v_now);

  loop
    if enqueue.idempotency_key is not null then
      -- Held until the caller ends, so that the answer stays true: prune passes by.
      select job.* into v_job
      from queue.jobs as job
      where job.queue = v_queue
        and job.idempotency_key = enqueue.idempotency_key
      for key share;

      if found then
        perform queue._check_same_job(v_job, enqueue.kind, v_payload);
        job_id := v_job.id;
        created := false;
        return next;
        return;
      end if;
    end if;

    -- The job and its event at once.
    with created as (
      insert into queue.jobs as job (
        created_at, available_at, max_attempts, priority, queue, kind, idempotency_key, lease,
        timeout, payload, headers
      )
      values (
        v_now,
        v_available_at,
        coalesce(
          enqueue.max_attempts,
          (select policy.max_attempts from queue._policy(v_queue, v_now) as policy)
        ),
        coalesce(enqueue.priority, 5),
        v_queue,
        enqueue.kind,
        enqueue.idempotency_key,
        enqueue.lease,
        enqueue.timeout,
        v_payload,
        coalesce(enqueue.headers, '{}')
      )
      on conflict do nothing
      returning job.id, job.priority, job.max_attempts
    )
    insert into queue.job_events as event (
      at, job_id, attempt, fence, event, to_status, queue, kind, actor, detail
    )
    select
      v_now, created.id, 0, 0, 'enqueued', 'queued', v_queue, enqueue.kind, actor.name,
      jsonb_strip_nulls(
        jsonb_build_object(
          'priority', created.priority,
          'max_attempts', created.max_attempts,
          'available_at', nullif(v_available_at, v_now),
          'idempotency_key', enqueue.idempotency_key,
          'session_user', actor.session_user_name
        )
      )
    from created
      cross join queue._actor() as actor
    returning event.job_id into enqueue.job_id;

    -- Nothing inserted: another session has just taken the key. Look again.
    exit when found;
  end loop;

  perform queue._wake(v_queue, v_available_at, v_now);

  created := true;
  return next;
end;
$$;

comment on function queue.enqueue is '-> queued, in the caller''s transaction';
-- An operator may too: by hand, and to run a job's like again.
grant execute on function queue.enqueue to queue_producer, queue_operator;
