-- queue._result: a handler's result as it is stored; RL413 when it is larger than 1 MiB
create or replace function queue._result(p_result json)
returns jsonb
language plpgsql
immutable
as $$
declare
  v_result jsonb;
begin
  if p_result is null then
    return null;
  end if;

  v_result := queue._as_jsonb(p_result);

  if octet_length(v_result::text) > 1048576 then
    raise exception 'result has % bytes', octet_length(v_result::text)
      using errcode = 'RL413',
        hint = 'A result is at most 1048576 bytes as text: keep large things elsewhere, or fail the job.';
  end if;

  return v_result;
end;
$$;

comment on function queue._result is 'A result as jsonb; RL413 when larger than 1 MiB';
