-- queue._error_group: failures alike but for numbers, ids and quoted words share a fingerprint
create or replace function queue._error_group(p_kind text, p_error_type text, p_message text)
returns text
language sql
immutable
as $$
  select left(
    md5(
      p_kind || E'\n' || p_error_type || E'\n'
      || regexp_replace(
        left(split_part(coalesce(p_message, ''), E'\n', 1), 300),
        '"[^"]*"|''[^'']*''|0x[0-9a-fA-F]+|[0-9a-fA-F-]{16,}|[0-9]+',
        '#',
        'g'
      )
    ),
    16
  );
$$;

comment on function queue._error_group is 'Fingerprint of kind, error type and normalised message';
