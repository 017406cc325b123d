-- queue._check_job_filter: RL400, naming the field, unless this is a filter of list_jobs
create or replace function queue._check_job_filter(p_filter jsonb)
returns void
language plpgsql
stable
as $$
declare
  v_texts constant text[] := array[
    'status', 'label', 'queue', 'kind', 'worker', 'error_group', 'idempotency_key', 'created_after',
    'created_before'
  ];
  v_names constant text[] := v_texts || array['priority', 'ids', 'headers', 'payload'];
  v_field record;
begin
  if jsonb_typeof(p_filter) is distinct from 'object' then
    raise exception 'filter is %', coalesce('a JSON ' || jsonb_typeof(p_filter), 'null')
      using errcode = 'RL400', hint = 'filter is a JSON object.';
  end if;

  for v_field in
    select field.key, jsonb_typeof(field.value) as type, field.value from jsonb_each(p_filter) as field
  loop
    if v_field.key <> all (v_names) then
      raise exception 'filter has an unknown field %', quote_literal(left(v_field.key, 80))
        using errcode = 'RL400', hint = 'Fields are ' || array_to_string(v_names, ', ') || '.';
    end if;

    -- 5.0 would be a number and match no priority: the text is compared.
    if v_field.key = any (v_texts) and v_field.type <> 'string'
      or v_field.key = 'priority' and v_field.value::text !~ '^[0-9]$'
      or v_field.key = 'ids'
        and (v_field.type <> 'array' or jsonb_path_exists(v_field.value, 'strict $[*] ? (@.type() != "number")'))
    then
      raise exception 'filter: % % is not usable', v_field.key, left(v_field.value::text, 80)
        using errcode = 'RL400',
          hint = 'Fields are strings; priority is 0 to 9, ids an array of numbers, headers and payload documents.';
    end if;

    if v_field.key = 'status'
      and v_field.value #>> '{}' <> all (array['queued', 'running', 'succeeded', 'failed', 'cancelled'])
      or v_field.key = 'label'
      and v_field.value #>> '{}' <> all (
        array['ready', 'scheduled', 'retrying', 'running', 'succeeded', 'dead', 'cancelled']
      )
    then
      raise exception 'filter: % % is unknown', v_field.key, left(v_field.value::text, 80)
        using errcode = 'RL400',
          hint = 'status is queued, running, succeeded, failed or cancelled; '
            'label is ready, scheduled, retrying, running, succeeded, dead or cancelled.';
    end if;

    -- Without zone, or as 1/2/2027, it would mean what the session's settings say.
    if v_field.key like 'created%' then
      begin
        if not isfinite((v_field.value #>> '{}')::timestamptz)
          or v_field.value #>> '{}' !~* '^[0-9]{4}-[0-9]{2}-[0-9]{2}[t ].*(z|[+-][0-9]{2}(:?[0-9]{2})?)$'
        then
          raise data_exception;
        end if;
      exception
        when data_exception then
          raise exception 'filter: % % is no time', v_field.key, left(v_field.value::text, 80)
            using errcode = 'RL400', hint = 'Write it as ISO 8601 with its zone, as 2027-01-31T12:00:00Z.';
      end;
    end if;
  end loop;
end;
$$;

comment on function queue._check_job_filter is 'RL400 unless this is a filter of list_jobs';
