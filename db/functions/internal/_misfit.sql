-- queue._misfit: the first field of a document that does not read as its type, in words; null when all do
--
-- For messages: what the server says of a text that is no interval does not tell which it was.
create or replace function queue._misfit(p_object json)
returns text
language plpgsql
stable
as $$
declare
  v_field record;
begin
  if json_typeof(p_object) <> 'object' then
    return 'it is a JSON ' || json_typeof(p_object);
  end if;

  for v_field in
    select
      field.key,
      field.value,
      case
        when field.key in ('delay', 'lease', 'retry_in', 'spread', 'timeout') then 'interval'
        when field.key in ('extra_attempts', 'fence', 'max_attempts', 'priority') then 'integer'
        when field.key = 'job_id' then 'bigint'
        when field.key = 'available_at' then 'timestamptz'
        when field.key = 'fatal' then 'boolean'
      end as type
    from json_each_text(p_object) as field
  loop
    begin
      perform case v_field.type
        when 'interval' then v_field.value::interval is null
        when 'integer' then v_field.value::integer is null
        when 'bigint' then v_field.value::bigint is null
        when 'timestamptz' then v_field.value::timestamptz is null
        when 'boolean' then v_field.value::boolean
      end;
    exception
      when data_exception then
        return format('%s %s is no %s', v_field.key, quote_literal(left(v_field.value, 80)), v_field.type);
    end;
  end loop;

  return null;
end;
$$;

comment on function queue._misfit is 'The first field of a document that does not read as its type';
