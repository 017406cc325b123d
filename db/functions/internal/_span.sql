-- queue._span: a stretch of time cut into equal slots, and the grain of the rollups that covers it; RL400 for more than
-- 1,000 slots
create or replace function queue._span(
  p_since timestamptz,
  p_until timestamptz,
  p_resolution interval
)
returns table (since timestamptz, until timestamptz, resolution interval, grain text)
language plpgsql
stable
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_width interval;
begin
  resolution := coalesce(p_resolution, interval '1 minute');
  perform queue._check_span('resolution', resolution, interval '1 minute', interval '1 day');

  until := coalesce(p_until, v_now);
  since := coalesce(p_since, until - interval '1 hour');
  if not isfinite(since) or not isfinite(until) or since >= until
    or since < timestamptz '0001-01-01 00:00:00+00'
    or until > v_now + interval '10 years'
    or until - since > 1000 * resolution
  then
    raise exception 'since % and until % are out of range', since, until
      using errcode = 'RL400',
        hint = 'since is before until, they are at most 1000 times the resolution apart, '
          'and until is at most 10 years ahead.';
  end if;

  grain := case
    when since < v_now - interval '25 hours' or resolution >= interval '1 hour' then 'hour'
    when extract(epoch from resolution) % 300 = 0 then 'five_minutes'
    else 'minute'
  end;

  -- Slots are whole minutes or hours long, begin so, and cover what was asked for.
  v_width := case grain when 'hour' then interval '1 hour' else '1 minute' end;
  resolution := ceil(extract(epoch from resolution) / extract(epoch from v_width)) * v_width;
  since := date_bin(resolution, since, timestamptz '2000-01-01 00:00:00+00');
  return next;
end;
$$;

comment on function queue._span is 'A stretch of time in slots, and the grain that covers it';
