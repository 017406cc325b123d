-- queue._cut: as many whole characters of a text as p_bytes hold, in any server encoding
create or replace function queue._cut(p_text text, p_bytes integer)
returns text
language plpgsql
immutable
as $$
declare
  v_text text;
  v_fits integer := 0;
  v_most integer := p_bytes - 3;
  v_middle integer;
begin
  if octet_length(p_text) <= p_bytes then
    return p_text;
  end if;

  v_text := left(p_text, v_most);
  while v_fits < v_most loop
    v_middle := (v_fits + v_most + 1) / 2;
    if octet_length(left(v_text, v_middle)) <= p_bytes - 3 then
      v_fits := v_middle;
    else
      v_most := v_middle - 1;
    end if;
  end loop;

  return left(v_text, v_fits) || '...';
end;
$$;

comment on function queue._cut is 'At most p_bytes of a text, ending in ... where it was cut';
