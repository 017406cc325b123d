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

-- How many rows, or index entries, of a table and its partitions this transaction has read so far.
create function queue_tests.rows_read(of_table regclass default 'queue.jobs')
returns bigint
language sql
volatile
security definer
as $$
  select
    sum(
      pg_stat_get_xact_tuples_returned(part.relid)
      + pg_stat_get_xact_tuples_fetched(part.relid)
      + (
        select coalesce(sum(pg_stat_get_xact_tuples_returned(index.indexrelid)), 0)
        from pg_index as index
        where index.indrelid = part.relid
      )
    )::bigint
  from pg_partition_tree(of_table) as part
  where part.isleaf
  having count(*) > 0
  union all
  select
    pg_stat_get_xact_tuples_returned(of_table)
    + pg_stat_get_xact_tuples_fetched(of_table)
    + (
      select coalesce(sum(pg_stat_get_xact_tuples_returned(index.indexrelid)), 0)::bigint
      from pg_index as index
      where index.indrelid = of_table
    )
  where not exists (select from pg_partition_tree(of_table));
$$;
