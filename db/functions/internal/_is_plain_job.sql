-- queue._is_plain_job: whether these arguments need no closer look, as those of most jobs
--
-- One expression, which PostgreSQL puts into the caller's: what it passes costs no call. Of the others _check_job finds
-- out whether they describe a job, and what is wrong. A document this short holds nothing that a client cannot read.
create or replace function queue._is_plain_job(
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
  p_headers jsonb
)
returns boolean
language sql
immutable
as $$
  select
    p_kind ~ '^[a-z0-9][a-z0-9_.:-]*$' and length(p_kind) <= 63
    and coalesce(p_queue ~ '^[a-z0-9][a-z0-9_.:-]*$' and length(p_queue) <= 63, true)
    and coalesce(octet_length(p_payload::text) <= 200, true)
    and coalesce(p_priority between 0 and 9, true)
    and coalesce(length(p_idempotency_key) between 1 and 255, true)
    and p_available_at is null and p_delay is null and p_max_attempts is null
    and p_lease is null and p_timeout is null
    and coalesce(p_headers = '{}', true);
$$;

comment on function queue._is_plain_job is 'Whether arguments of a job need no closer look';
