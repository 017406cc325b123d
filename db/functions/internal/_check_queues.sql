-- queue._check_queues: RL400 unless this names 1 to 32 queues
create or replace function queue._check_queues(p_queues text[])
returns void
language plpgsql
immutable
as $$
declare
  v_queue text;
begin
  if cardinality(p_queues) not between 1 and 32 or p_queues is null then
    raise exception 'queues names % queues', coalesce(cardinality(p_queues), 0)
      using errcode = 'RL400', hint = 'queues is an array of 1 to 32 names.';
  end if;

  foreach v_queue in array p_queues loop
    perform queue._check_name('queue', v_queue);
  end loop;
end;
$$;

comment on function queue._check_queues is 'RL400 unless this names 1 to 32 queues';
