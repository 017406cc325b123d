-- queue._unreadable: why some client could not read a JSON document back; null when every one can
--
-- Their parsers stop at nesting and at numbers long before jsonb does. A short text can be neither deep nor hold a
-- number beyond a double, so only longer ones are walked; and numbers are walked only where the text has that many
-- digits in a row.
create or replace function queue._unreadable(p_value jsonb)
returns text
language plpgsql
immutable
as $$
declare
  v_text text := p_value::text;
begin
  return case
    when octet_length(v_text) <= 200 then null
    when p_value @? '$.**{101}' then 'is nested deeper than 100 levels'
    when v_text ~ '[0-9]{200}'
      and p_value @? 'strict $.** ? (@.type() == "number" && (@ > 1.7e308 || @ < -1.7e308))'
      then 'holds a number beyond the range of a double'
  end;
end;
$$;

comment on function queue._unreadable is 'Why some client could not read a document back; null when all can';
