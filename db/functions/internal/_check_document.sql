-- queue._check_document: RL413 or RL400 unless every client can read a JSON document back
create or replace function queue._check_document(p_field text, p_value jsonb, p_most integer)
returns void
language plpgsql
immutable
as $$
declare
  v_bytes integer := octet_length(p_value::text);
  v_fault text;
begin
  if v_bytes > p_most then
    raise exception '% has % bytes', p_field, v_bytes
      using errcode = 'RL413',
        hint = format(
          '%s is at most %s bytes as text: keep large things elsewhere and pass a reference.',
          p_field, p_most
        );
  end if;

  v_fault := queue._unreadable(p_value);
  if v_fault is not null then
    raise exception '% %', p_field, v_fault
      using errcode = 'RL400', hint = 'No client could read that back: pass it as a string.';
  end if;
end;
$$;

comment on function queue._check_document is 'RL413 or RL400 unless every client can read the document';
