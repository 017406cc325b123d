-- queue._backoff: how long to wait before the next attempt
--
-- Doubles from the base to the cap, then varies by a quarter either way. The variation comes from the job
-- and the attempt: a storm of failures spreads, and the same question has the same answer.
create or replace function queue._backoff(
  p_job_id bigint,
  p_attempt integer,
  p_base interval,
  p_cap interval
)
returns interval
language sql
immutable
as $$
  select make_interval(
    secs =>
      -- The exponent is bounded before it is used: 2^62 seconds is no interval.
      least(
        extract(epoch from p_cap)::double precision,
        extract(epoch from p_base)::double precision * 2 ^ least(greatest(p_attempt - 1, 0), 45)
      )
      * (0.75 + 0.5 * (hashint8extended(p_job_id, p_attempt) & 65535) / 65535)
  );
$$;

comment on function queue._backoff is 'least(cap, base * 2^(attempt - 1)), times 0.75 to 1.25 by job and attempt';
