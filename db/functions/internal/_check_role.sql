-- queue._check_role: RL400 unless a role is one of these
create or replace function queue._check_role(p_role text, p_roles text[])
returns void
language plpgsql
immutable
as $$
begin
  if p_role is null or p_role <> all (p_roles) then
    raise exception 'role % is unknown', coalesce(quote_literal(left(p_role, 80)), 'null')
      using errcode = 'RL400', hint = 'role is ' || array_to_string(p_roles, ', ') || '.';
  end if;
end;
$$;

comment on function queue._check_role is 'RL400 unless the role is one of these';
