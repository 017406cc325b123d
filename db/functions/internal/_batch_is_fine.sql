-- queue._batch_is_fine: whether enqueue_many can take this array, found out in one pass
--
-- False leaves it to _check_batch, element by element, to find and name what is wrong. Plain jobs, which are most,
-- are told by the filter; only the others are worth a call each.
create or replace function queue._batch_is_fine(p_jobs jsonb, p_fields text[], p_instant text)
returns boolean
language plpgsql
stable
as $$
begin
  if exists (
    select from jsonb_array_elements(p_jobs) as item
    where jsonb_typeof(item.value) <> 'object'
      or item.value - p_fields <> '{}'
      or item.value ->> 'available_at' !~* p_instant
  ) then
    return false;
  end if;

  perform queue._check_job(
    job.kind, job.payload, job.queue, job.priority, job.available_at, job.delay, job.max_attempts,
    job.lease, job.timeout, job.idempotency_key, job.headers, clock_timestamp()
  )
  from jsonb_to_recordset(p_jobs) as job (
    kind text, payload jsonb, queue text, priority integer, available_at timestamptz,
    delay interval, max_attempts integer, lease interval, timeout interval,
    idempotency_key text, headers jsonb
  )
  where queue._is_plain_job(
    job.kind, job.payload, job.queue, job.priority, job.available_at, job.delay, job.max_attempts,
    job.lease, job.timeout, job.idempotency_key, job.headers
  ) is not true;

  return true;
exception
  when data_exception or sqlstate 'RL400' or sqlstate 'RL413' then
    return false;
end;
$$;

comment on function queue._batch_is_fine is 'Whether enqueue_many can take this array, in one pass';
