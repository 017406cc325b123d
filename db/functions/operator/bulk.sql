-- queue.bulk: one action on the jobs that match a filter, a page at a time
--
-- action is retry, cancel, run_now, reprioritize or discard; filter is list_jobs', narrowed to the statuses that the
-- action takes (retry and discard: failed, unless the filter says another; RL400 for one that it does not take).
-- arguments is a JSON object: extra_attempts, delay and spread (retry: due spread evenly over that time) or priority
-- (reprioritize; a dry run may leave it open). One row a job: outcome is changed, or skipped with the reason (it
-- changed meanwhile, or somebody has it locked); in a dry run matched. One event a job, with who and why. max_jobs from
-- 1 to 1,000, of a dry run to 10,000; a call takes its jobs in id order and waits for none.
--
-- A call reads at most 10,000 rows: where it stops for that, or for max_jobs, next_cursor goes on. It is the same on
-- every row, null at the end; a call that found nothing is one row with a null job_id. RL400 names a bad argument.
create or replace function queue.bulk(
  action text,
  filter jsonb,
  dry_run boolean default true,
  max_jobs integer default 1000,
  arguments jsonb default '{}',
  reason text default null,
  cursor text default null
)
returns table (job_id bigint, outcome text, note text, next_cursor text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_filter jsonb := bulk.filter;
  v_arguments jsonb := coalesce(bulk.arguments, '{}');
  v_dry_run boolean := coalesce(bulk.dry_run, true);
  v_allowed text[];
  v_spread interval;
  v_delay interval;
  v_statuses text[];
  v_status text;
  v_page record;
  v_cursor text := bulk.cursor;
  v_rows integer := 10000;
  v_ids bigint[] := array[]::bigint[];
begin
  perform queue._require_writable();
  perform queue._check_number('max_jobs', bulk.max_jobs, 1, case when v_dry_run then 10000 else 1000 end);
  perform queue._check_job_filter(v_filter);

  case bulk.action
    when 'retry' then
      v_statuses := '{failed,cancelled}';
      v_allowed := '{extra_attempts,delay,spread}';
    when 'cancel' then
      v_statuses := '{queued,running}';
      v_allowed := '{}';
    when 'run_now' then
      v_statuses := '{queued}';
      v_allowed := '{}';
    when 'reprioritize' then
      v_statuses := '{queued}';
      v_allowed := '{priority}';
    when 'discard' then
      v_statuses := '{failed,succeeded,cancelled}';
      v_allowed := '{}';
    else
      raise exception 'action % is unknown', coalesce(quote_literal(left(bulk.action, 80)), 'null')
        using errcode = 'RL400', hint = 'action is retry, cancel, run_now, reprioritize or discard.';
  end case;

  if jsonb_typeof(v_arguments) <> 'object' or v_arguments - v_allowed <> '{}' then
    raise exception 'arguments % do not fit %', left(v_arguments::text, 200), bulk.action
      using errcode = 'RL400',
        hint = format(
          'arguments of %s: %s.', bulk.action,
          coalesce(nullif(array_to_string(v_allowed, ', '), ''), 'none')
        );
  end if;

  begin
    v_delay := (v_arguments ->> 'delay')::interval;
    v_spread := (v_arguments ->> 'spread')::interval;
    perform (v_arguments ->> 'extra_attempts')::integer, (v_arguments ->> 'priority')::integer;
  exception
    when data_exception then
      raise exception 'arguments: %', coalesce(queue._misfit(v_arguments::json), sqlerrm)
        using errcode = 'RL400',
          hint = 'delay and spread are intervals, extra_attempts and priority whole numbers.';
  end;
  perform queue._check_span('delay', v_delay, interval '-10 years', interval '10 years');
  perform queue._check_span('spread', v_spread, interval '0', interval '30 days');
  perform queue._check_span('delay and spread', v_delay + v_spread, interval '-10 years', interval '10 years');
  perform queue._check_number(
    'extra_attempts', coalesce((v_arguments ->> 'extra_attempts')::bigint, 1), 1, 100000
  );
  if bulk.action = 'reprioritize' and (not v_dry_run or v_arguments ? 'priority') then
    perform queue._check_number('priority', (v_arguments ->> 'priority')::bigint, 0, 9);
    v_filter := v_filter || jsonb_build_object('other_priority', v_arguments -> 'priority');
  elsif bulk.action = 'cancel' then
    v_filter := v_filter || '{"not_asked": true}';
  elsif bulk.action = 'run_now' then
    v_filter := v_filter || '{"not_due": true}';
  end if;

  v_status := queue._wanted_status(v_filter);
  if v_status <> all (v_statuses) then
    raise exception '% takes no job that is %', bulk.action, v_status
      using errcode = 'RL400',
        hint = format('%s takes a job that is %s.', bulk.action, array_to_string(v_statuses, ' or '));
  end if;

  -- The statuses one by one, for each has its own order to be found in, whose name a cursor begins with; without a word
  -- the first alone for retry and discard: nobody means jobs cancelled on purpose.
  if v_filter ?| '{status,label,ids}' then
    v_statuses := array[null];
  elsif bulk.action in ('retry', 'discard') then
    v_statuses := v_statuses[1:1];
  else
    v_statuses := v_statuses[coalesce(array_position(v_statuses, split_part(v_cursor, ' ', 1)), 1):];
  end if;

  foreach v_status in array v_statuses loop
    select found.* into v_page
    from queue._find_jobs(
        v_filter || jsonb_strip_nulls(jsonb_build_object('status', v_status)),
        v_cursor,
        bulk.max_jobs - cardinality(v_ids),
        false,
        v_rows
      ) as found;
    v_ids := v_ids || v_page.ids;
    v_rows := v_rows - v_page.rows_read;
    v_cursor := null;
    next_cursor := v_page.next_cursor;
    exit when next_cursor is not null;
  end loop;

  for bulk.job_id in
    select found.id from unnest(v_ids) as found (id) order by found.id
  loop
    if v_dry_run then
      outcome := 'matched';
      note := null;
    else
      select changed.outcome, changed.note into outcome, note
      from queue._bulk_one(
          bulk.action, bulk.job_id, v_arguments,
          coalesce(v_delay, interval '0')
            + coalesce(v_spread, interval '0') * (hashint8(bulk.job_id) & 65535) / 65536,
          bulk.reason
        ) as changed;
    end if;
    return next;
  end loop;

  if cardinality(v_ids) = 0 then
    return next;
  elsif not v_dry_run then
    perform queue._record_action(
      'bulk_' || bulk.action,
      v_filter ->> 'queue',
      bulk.reason,
      jsonb_build_object(
        'filter', bulk.filter, 'arguments', nullif(v_arguments, '{}'), 'jobs', cardinality(v_ids)
      )
    );
  end if;
end;
$$;

comment on function queue.bulk is 'One action on the jobs that match a filter, a page at a time';
grant execute on function queue.bulk to queue_operator;
