-- queue._check_span: RL400 unless a length of time is within its bounds; null passes, it means the default
create or replace function queue._check_span(
  p_field text,
  p_value interval,
  p_least interval,
  p_most interval
)
returns void
language plpgsql
immutable
as $$
begin
  if p_value < p_least or p_value > p_most then
    raise exception '% % is out of range', p_field, p_value
      using errcode = 'RL400',
        hint = format('%s is an interval from %s to %s.', p_field, p_least, p_most);
  end if;
end;
$$;

comment on function queue._check_span is 'RL400 unless the interval is within its bounds';
