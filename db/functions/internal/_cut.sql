-- queue._cut: at most p_bytes of a text, whole characters, in any server encoding
create or replace function queue._cut(p_text text, p_bytes integer)
returns text
language plpgsql
immutable
as $$
declare
  v_text text := p_text;
begin
  if octet_length(p_text) <= p_bytes then
    return p_text;
  end if;

  v_text := left(p_text, p_bytes);
  while octet_length(v_text) > p_bytes - 3 loop
    v_text := left(
      v_text,
      least(length(v_text) - 1, ((p_bytes - 3)::bigint * length(v_text) / octet_length(v_text))::integer)
    );
  end loop;

  return v_text || '...';
end;
$$;

comment on function queue._cut is 'At most p_bytes of a text, ending in ... where it was cut';
