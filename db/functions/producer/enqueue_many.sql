-- queue.enqueue_many: -> queued, many at once
--
-- jobs is an array of at most 1,000 objects whose fields are the parameters of enqueue; all are created or none.
-- Answers come in the array's order, ordinal from 1. A field that enqueue does not have, or a value out of bounds, is
-- RL400 naming the element; null means the default, of payload too. Keys already known, in the table or earlier in the
-- array, answer created = false, as in enqueue.
create or replace function queue.enqueue_many(jobs jsonb)
returns table (ordinal integer, job_id bigint, created boolean)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_max_attempts jsonb;
  v_ids bigint[];
  v_created boolean[];
  v_left integer[];
  v_item record;
  v_answer record;
  v_due_at jsonb;
begin
  perform queue._check_batch(enqueue_many.jobs);

  -- One lookup a queue, not one a job.
  select jsonb_object_agg(named.queue, policy.max_attempts)
  into v_max_attempts
  from (
    select distinct coalesce(item.value ->> 'queue', 'default') as queue
    from jsonb_array_elements(enqueue_many.jobs) as item
  ) as named
    cross join lateral queue._policy(named.queue, v_now) as policy;

  with item as materialized (
    select
      nextval('queue.jobs_id_seq') as id,
      greatest(coalesce(asked.available_at, v_now + asked.delay, v_now), v_now) as available_at,
      coalesce(asked.queue, 'default') as queue,
      coalesce(asked.priority, 5) as priority,
      coalesce(asked.payload, '{}') as payload,
      coalesce(asked.headers, '{}') as headers,
      coalesce(
        asked.max_attempts,
        (v_max_attempts -> coalesce(asked.queue, 'default'))::integer
      ) as max_attempts,
      asked.kind, asked.lease, asked.timeout, asked.idempotency_key, asked.ordinal
    from rows from (
      jsonb_to_recordset(enqueue_many.jobs) as (
        kind text, payload jsonb, queue text, priority smallint, available_at timestamptz,
        delay interval, max_attempts integer, lease interval, timeout interval,
        idempotency_key text, headers jsonb
      )
    ) with ordinality as asked (
      kind, payload, queue, priority, available_at, delay, max_attempts, lease, timeout,
      idempotency_key, headers, ordinal
    )
  ),
  -- Known keys first, and held from here on: one that were freed now would be taken again out of turn.
  known as materialized (
    select
      asked.ordinal, held.id, held.kind = asked.kind and held.payload = asked.payload as is_same
    from (
        select item.ordinal, item.queue, item.idempotency_key, item.kind, item.payload
        from item
        where item.idempotency_key is not null
        order by item.queue, item.idempotency_key
      ) as asked
      cross join lateral (
        select job.id, job.kind, job.payload
        from queue.jobs as job
        where job.queue = asked.queue
          and job.idempotency_key = asked.idempotency_key
        for key share
      ) as held
  ),
  keyless as (
    insert into queue.jobs as job (
      id, created_at, available_at, max_attempts, priority, queue, kind, lease, timeout, payload,
      headers
    )
    overriding system value
    select
      item.id, v_now, item.available_at, item.max_attempts, item.priority, item.queue, item.kind,
      item.lease, item.timeout, item.payload, item.headers
    from item
    where item.idempotency_key is null
    returning job.id, job.kind, job.queue, job.priority, job.max_attempts, job.available_at,
      job.idempotency_key
  ),
  -- The others are taken in order, so that batches which share some wait for each other and never in a circle.
  keyed as (
    insert into queue.jobs as job (
      id, created_at, available_at, max_attempts, priority, queue, kind, idempotency_key, lease,
      timeout, payload, headers
    )
    overriding system value
    select
      item.id, v_now, item.available_at, item.max_attempts, item.priority, item.queue, item.kind,
      item.idempotency_key, item.lease, item.timeout, item.payload, item.headers
    from item
    where item.idempotency_key is not null
      and item.ordinal not in (select known.ordinal from known)
    order by item.queue, item.idempotency_key, item.ordinal
    on conflict do nothing
    returning job.id, job.kind, job.queue, job.priority, job.max_attempts, job.available_at,
      job.idempotency_key
  ),
  created as (
    select keyless.* from keyless
    union all
    select keyed.* from keyed
  ),
  recorded as (
    insert into queue.job_events (
      at, job_id, attempt, fence, event, to_status, queue, kind, actor, detail
    )
    select
      v_now, created.id, 0, 0, 'enqueued', 'queued', created.queue, created.kind, actor.name,
      case
        when created.available_at > v_now or created.idempotency_key is not null
          or actor.session_user_name is not null
          then jsonb_strip_nulls(
            jsonb_build_object(
              'priority', created.priority,
              'max_attempts', created.max_attempts,
              'available_at', nullif(created.available_at, v_now),
              'idempotency_key', created.idempotency_key,
              'session_user', actor.session_user_name
            )
          )
        else
          jsonb_build_object('priority', created.priority, 'max_attempts', created.max_attempts)
      end
    from created
      cross join queue._actor() as actor
  )
  select
    array_agg(coalesce(known.id, item.id) order by item.ordinal),
    array_agg(created.id is not null order by item.ordinal),
    array_agg(item.ordinal::integer order by item.queue, item.idempotency_key)
      filter (where created.id is null and known.is_same is not true),
    (
      select jsonb_object_agg(line.queue, line.available_at)
      from (
        select created.queue, min(created.available_at) as available_at
        from created
        group by created.queue
      ) as line
    )
  into v_ids, v_created, v_left, v_due_at
  from item
    left join created on created.id = item.id
    left join known on known.ordinal = item.ordinal;

  -- What is left has a key that stands for another job, or that this array or another session has just taken. Should
  -- the latter's job be gone already, enqueue makes it anew.
  for v_item in
    select
      asked.ordinal,
      enqueue_many.jobs -> (asked.ordinal - 1) as value
    from unnest(v_left) as asked (ordinal)
  loop
    select answer.job_id, answer.created
    into v_answer
    from jsonb_to_record(v_item.value) as item (
        kind text, payload jsonb, queue text, priority integer, available_at timestamptz,
        delay interval, max_attempts integer, lease interval, timeout interval,
        idempotency_key text, headers jsonb
      )
      cross join lateral queue.enqueue(
        item.kind, item.payload, item.queue, item.priority, item.available_at, item.delay,
        item.max_attempts, item.lease, item.timeout, item.idempotency_key, item.headers
      ) as answer;
    v_ids[v_item.ordinal] := v_answer.job_id;
    v_created[v_item.ordinal] := v_answer.created;
  end loop;

  perform queue._wake(line.key, line.value::timestamptz, v_now)
  from jsonb_each_text(v_due_at) as line;

  return query
    select answered.ordinal::integer, answered.id, answered.created
    from unnest(v_ids, v_created) with ordinality as answered (id, created, ordinal)
    order by answered.ordinal;
end;
$$;

comment on function queue.enqueue_many is '-> queued, up to 1,000 jobs, all or nothing';
grant execute on function queue.enqueue_many to queue_producer;
