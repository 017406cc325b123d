-- A job in a given status, in a queue and of a kind that are called like it.
create function queue_tests.one_in(status text)
returns bigint
language plpgsql
security definer
as $$
declare
  v_id bigint;
begin
  if status in ('queued', 'cancelled') then
    v_id := queue_tests.enqueue_one(status, status);
  else
    v_id := queue_tests.run_one(status);
  end if;

  case status
    when 'succeeded' then perform queue.complete(v_id, 1, '{"sum": 7}');
    when 'failed' then perform queue.fail(v_id, 1, 'Broken', 'no paper', fatal => true);
    when 'cancelled' then perform queue.cancel(v_id);
    else null;
  end case;

  return v_id;
end;
$$;

-- The latest job of each status, by name.
create function queue_tests.one_of_each()
returns table (status text, job_id bigint)
language sql
security definer
as $$
  select listed.status, queue_tests.one_in(listed.status)
  from unnest('{queued,running,succeeded,failed,cancelled}'::text[]) as listed (status);
$$;

-- How many rows of queue.jobs this transaction has read so far, by index or not.
create function queue_tests.rows_read()
returns bigint
language sql
volatile
security definer
as $$
  select pg_stat_get_xact_tuples_returned('queue.jobs'::regclass)
    + pg_stat_get_xact_tuples_fetched('queue.jobs'::regclass);
$$;
