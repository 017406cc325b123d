-- queue._check_number: RL400 unless a number is within its bounds
create or replace function queue._check_number(
  p_field text,
  p_value bigint,
  p_least bigint,
  p_most bigint
)
returns void
language plpgsql
immutable
as $$
begin
  if p_value is null or p_value not between p_least and p_most then
    raise exception '% % is out of range', p_field, coalesce(p_value::text, 'null')
      using errcode = 'RL400',
        hint = format('%s is a number from %s to %s.', p_field, p_least, p_most);
  end if;
end;
$$;

comment on function queue._check_number is 'RL400 unless the number is within its bounds';
