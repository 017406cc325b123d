-- queue._check_length: RL400 unless a text has from 1 to p_most characters; null passes, it means none
create or replace function queue._check_length(p_field text, p_value text, p_most integer)
returns void
language plpgsql
immutable
as $$
begin
  if length(p_value) not between 1 and p_most then
    raise exception '% has % characters', p_field, length(p_value)
      using errcode = 'RL400', hint = format('%s is 1 to %s characters.', p_field, p_most);
  end if;
end;
$$;

comment on function queue._check_length is 'RL400 unless the text has from 1 to p_most characters';
