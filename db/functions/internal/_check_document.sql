-- queue._check_document: RL413 or RL400 unless every client can read a JSON document back
--
-- A short text can be neither deep nor hold a number beyond a double, so only longer ones are walked.
create or replace function queue._check_document(p_field text, p_value jsonb, p_most integer)
returns void
language plpgsql
immutable
as $$
declare
  v_bytes integer := octet_length(p_value::text);
begin
  if v_bytes > p_most then
    raise exception '% has % bytes', p_field, v_bytes
      using errcode = 'RL413',
        hint = format(
          '%s is at most %s bytes as text: keep large things elsewhere and pass a reference.',
          p_field, p_most
        );
  end if;

  if v_bytes > 200 then
    if p_value @? '$.**{101}' then
      raise exception '% is nested deeper than 100 levels', p_field
        using errcode = 'RL400', hint = 'Flatten it, or pass it as a string.';
    end if;

    if p_value @? 'strict $.** ? (@.type() == "number" && (@ > 1.7e308 || @ < -1.7e308))' then
      raise exception '% holds a number beyond the range of a double', p_field
        using errcode = 'RL400', hint = 'Pass such a number as a string.';
    end if;
  end if;
end;
$$;

comment on function queue._check_document is 'RL413 or RL400 unless every client can read the document';
