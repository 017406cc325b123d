-- queue._check_name: RL400 unless a value can name a queue or a kind
create or replace function queue._check_name(p_field text, p_value text)
returns void
language plpgsql
immutable
as $$
begin
  if p_value is null or length(p_value) > 63 or p_value !~ '^[a-z0-9][a-z0-9_.:-]*$' then
    raise exception '% % is not a name', p_field, coalesce(quote_literal(left(p_value, 80)), 'null')
      using errcode = 'RL400',
        hint = format(
          '%s is 1 to 63 characters of a-z, 0-9, _ . : - and starts with a letter or a digit.',
          p_field
        );
  end if;
end;
$$;

comment on function queue._check_name is 'RL400 unless the value can name a queue or a kind';
