-- queue._cut_detail: an error's detail as jsonb, at most 64 kB: what is longer is kept as the start of its text
create or replace function queue._cut_detail(p_detail json)
returns jsonb
language plpgsql
immutable
as $$
declare
  v_detail jsonb := queue._as_jsonb(p_detail);
  v_cut jsonb;
begin
  if v_detail is null or octet_length(v_detail::text) <= 65536 then
    return v_detail;
  end if;

  v_cut := jsonb_build_object('cut', queue._cut(v_detail::text, 65000));
  if octet_length(v_cut::text) > 65536 then
    -- Quoted once more, every quote and backslash counts twice.
    v_cut := jsonb_build_object('cut', queue._cut(v_detail::text, 32500));
  end if;

  return v_cut;
end;
$$;

comment on function queue._cut_detail is 'An error''s detail as jsonb of at most 64 kB';
