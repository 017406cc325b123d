-- queue._check_job: RL400 or RL413, naming the field, unless these arguments describe a job
--
-- Null means the default everywhere but for the kind. The past means now; what no client can read is refused.
create or replace function queue._check_job(
  p_kind text,
  p_payload jsonb,
  p_queue text,
  p_priority integer,
  p_available_at timestamptz,
  p_delay interval,
  p_max_attempts integer,
  p_lease interval,
  p_timeout interval,
  p_idempotency_key text,
  p_headers jsonb,
  p_now timestamptz
)
returns void
language plpgsql
stable
as $$
begin
  perform queue._check_name('kind', p_kind);

  if p_payload <> '{}' then
    perform queue._check_document('payload', p_payload, 1048576);
  end if;

  if p_queue <> 'default' then
    perform queue._check_name('queue', p_queue);
  end if;

  if p_priority is not null then
    perform queue._check_number('priority', p_priority, 0, 9);
  end if;

  if p_available_at is not null then
    if p_delay is not null then
      raise exception 'available_at and delay are both given'
        using errcode = 'RL400', hint = 'Give the instant or the delay, not both.';
    end if;

    if not isfinite(p_available_at)
      or p_available_at < timestamptz '0001-01-01 00:00:00+00'
      or p_available_at > p_now + interval '10 years'
    then
      raise exception 'available_at % is out of range', p_available_at
        using errcode = 'RL400',
          hint = 'available_at is at most 10 years ahead; an instant in the past means now.';
    end if;
  end if;

  if p_delay is not null then
    perform queue._check_span('delay', p_delay, interval '-10 years', interval '10 years');
  end if;

  if p_max_attempts is not null then
    perform queue._check_number('max_attempts', p_max_attempts, 1, 100000);
  end if;

  if p_lease is not null then
    perform queue._check_span('lease', p_lease, interval '1 second', interval '24 hours');
  end if;

  if p_timeout is not null then
    perform queue._check_span('timeout', p_timeout, interval '1 second', interval '7 days');
  end if;

  if p_idempotency_key is not null then
    perform queue._check_length('idempotency_key', p_idempotency_key, 255);
  end if;

  if p_headers <> '{}' then
    if jsonb_typeof(p_headers) <> 'object' then
      raise exception 'headers is a JSON %', jsonb_typeof(p_headers)
        using errcode = 'RL400', hint = 'headers is a JSON object.';
    end if;

    perform queue._check_document('headers', p_headers, 16384);
  end if;
end;
$$;

comment on function queue._check_job is 'RL400 or RL413, naming the field, unless these describe a job';
