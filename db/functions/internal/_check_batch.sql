-- queue._check_batch: RL400 or RL413, naming element and field, unless this is an array of jobs for enqueue_many
create or replace function queue._check_batch(p_jobs jsonb)
returns void
language plpgsql
stable
as $$
declare
  v_fields constant text[] := array[
    'kind', 'payload', 'queue', 'priority', 'available_at', 'delay', 'max_attempts', 'lease', 'timeout',
    'idempotency_key', 'headers'
  ];
  v_instant constant text :=
    '^[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?'
    ' ?(z|[+-][0-9]{2}(:?[0-9]{2}){0,2})$';
  v_now timestamptz := clock_timestamp();
  v_item record;
  v_unknown text;
  v_message text;
  v_state text;
  v_hint text;
begin
  if jsonb_typeof(p_jobs) is distinct from 'array' then
    raise exception 'jobs is %', coalesce('a JSON ' || jsonb_typeof(p_jobs), 'null')
      using errcode = 'RL400', hint = 'jobs is a JSON array of objects, one a job.';
  end if;

  if jsonb_array_length(p_jobs) > 1000 then
    raise exception 'jobs has % elements', jsonb_array_length(p_jobs)
      using errcode = 'RL400', hint = 'A batch is at most 1000 jobs.';
  end if;

  if queue._batch_is_fine(p_jobs, v_fields, v_instant) then
    return;
  end if;

  begin
    for v_item in
      select item.value, item.ordinality from jsonb_array_elements(p_jobs) with ordinality as item
    loop
      if jsonb_typeof(v_item.value) <> 'object' then
        raise exception 'it is a JSON %', jsonb_typeof(v_item.value)
          using errcode = 'RL400', hint = 'Each job is a JSON object with the fields of enqueue.';
      end if;

      if v_item.value - v_fields <> '{}' then
        select string_agg(quote_literal(left(name, 80)), ', ') into v_unknown
        from jsonb_object_keys(v_item.value - v_fields) as name;
        raise exception 'unknown field %', v_unknown
          using errcode = 'RL400', hint = 'Fields are ' || array_to_string(v_fields, ', ') || '.';
      end if;

      -- Without zone, or as 1/2/2027, it would mean what the session's settings say; a document knows none.
      if v_item.value ->> 'available_at' !~* v_instant then
        raise exception 'available_at % is no instant of ISO 8601 with a time zone',
          quote_literal(left(v_item.value ->> 'available_at', 80))
          using errcode = 'RL400', hint = 'Write it as 2027-01-31T12:00:00Z, or give a delay.';
      end if;

      perform queue._check_job(
        job.kind, job.payload, job.queue, job.priority, job.available_at, job.delay,
        job.max_attempts, job.lease, job.timeout, job.idempotency_key, job.headers, v_now
      )
      from jsonb_to_record(v_item.value) as job (
        kind text, payload jsonb, queue text, priority integer, available_at timestamptz,
        delay interval, max_attempts integer, lease interval, timeout interval,
        idempotency_key text, headers jsonb
      );
    end loop;
  exception
    when data_exception or sqlstate 'RL400' or sqlstate 'RL413' then
      get stacked diagnostics
        v_message = message_text, v_state = returned_sqlstate, v_hint = pg_exception_hint;
      if v_state like '22%' then
        v_message := coalesce(queue._misfit(v_item.value::json), v_message);
      end if;
      raise exception 'jobs: element %: %', coalesce(v_item.ordinality, 0), v_message
        using errcode = case when v_state like 'RL%' then v_state else 'RL400' end,
          hint = coalesce(nullif(v_hint, ''), 'Fields have the types of the parameters of enqueue.');
  end;
end;
$$;

comment on function queue._check_batch is 'RL400 or RL413, naming the element, unless enqueue_many can take this';
