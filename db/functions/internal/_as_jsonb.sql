-- queue._as_jsonb: any JSON a program can print, as jsonb
--
-- What jsonb cannot hold even when cleaned (a number of a million digits) is kept as a string.
create or replace function queue._as_jsonb(p_json json)
returns jsonb
language plpgsql
immutable
as $$
declare
  v_clean json;
begin
  v_clean := queue._clean_json(p_json);
  return v_clean::jsonb;
exception
  when data_exception or program_limit_exceeded then
    return to_jsonb(coalesce(v_clean, p_json)::text);
end;
$$;

comment on function queue._as_jsonb is 'Any JSON as jsonb: cleaned, or as a string where jsonb cannot hold it';
