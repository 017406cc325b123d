-- queue._clean_json: JSON text without the escapes that no jsonb or text can hold
--
-- Type json keeps \u0000 and half surrogate pairs as they came; both become U+FFFD here. A backslash
-- that is itself escaped starts no escape.
create or replace function queue._clean_json(p_json json)
returns json
language plpgsql
immutable
set standard_conforming_strings = on
as $$
declare
  v_text text := p_json::text;
begin
  if v_text !~* '\\u(0000|d[89a-f])' then
    return p_json;
  end if;

  v_text := regexp_replace(v_text, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g');

  -- Whole pairs step aside, lone halves are replaced, pairs come back.
  v_text := regexp_replace(
    v_text,
    '(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})',
    '\1\\uPAIR\2\3',
    'gi'
  );
  v_text := regexp_replace(v_text, '(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}', '\1\\ufffd', 'gi');
  v_text := regexp_replace(
    v_text, '(?<!\\)((?:\\\\)*)\\uPAIR(.{4})(.{4})', '\1\\u\2\\u\3', 'g'
  );

  return v_text::json;
end;
$$;

comment on function queue._clean_json is 'JSON text with NUL and lone surrogate escapes replaced by U+FFFD';
