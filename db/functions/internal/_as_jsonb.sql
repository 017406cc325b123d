-- queue._as_jsonb: any JSON a program can print, as jsonb that every client can read back
--
-- What jsonb cannot hold even when cleaned (a number of a million digits), and what no client could read, is
-- kept as a string.
create or replace function queue._as_jsonb(p_json json)
returns jsonb
language plpgsql
immutable
as $$
declare
  v_clean json;
  v_value jsonb;
begin
  v_clean := queue._clean_json(p_json);
  v_value := v_clean::jsonb;
  return case
    when queue._unreadable(v_value) is null then v_value
    else to_jsonb(v_clean::text)
  end;
exception
  when data_exception or program_limit_exceeded then
    return to_jsonb(coalesce(v_clean, p_json)::text);
end;
$$;

comment on function queue._as_jsonb is 'Any JSON as jsonb: cleaned, or as a string where no client could read it';
