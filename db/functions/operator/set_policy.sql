-- queue.set_policy: what differs for a queue from the settings
--
-- Null leaves a value as it is; unset names those that go back to the settings. lease 1 s to 24 h, timeout 1 s to 7
-- days, max_attempts 1 to 100,000, backoff 1 ms to 30 days (base at most cap), retention 1 minute to 10 years.
-- max_attempts holds for jobs enqueued from now on, the rest for all. Returns the policy as it is now, null where the
-- settings hold, which nobody else changes before this transaction ends. Without a value it changes nothing: it is for
-- looking before changing.
create or replace function queue.set_policy(
  queue text,
  lease interval default null,
  timeout interval default null,
  max_attempts integer default null,
  backoff_base interval default null,
  backoff_cap interval default null,
  finished_retention interval default null,
  failed_retention interval default null,
  unset text[] default '{}',
  reason text default null
)
returns table (name text, value text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_names constant text[] := array[
    'lease', 'timeout', 'max_attempts', 'backoff_base', 'backoff_cap', 'finished_retention',
    'failed_retention'
  ];
  v_unset text[] := coalesce(set_policy.unset, '{}');
  v_policy queue.policies;
begin
  perform queue._require_writable();
  perform queue._check_name('queue', set_policy.queue);
  perform queue._check_span('lease', set_policy.lease, '1 second', '24 hours');
  perform queue._check_span('timeout', set_policy.timeout, '1 second', '7 days');
  perform queue._check_number('max_attempts', coalesce(set_policy.max_attempts, 1), 1, 100000);
  perform queue._check_span('backoff_base', set_policy.backoff_base, '1 millisecond', '30 days');
  perform queue._check_span('backoff_cap', set_policy.backoff_cap, '1 millisecond', '30 days');
  perform queue._check_span(
    'finished_retention', set_policy.finished_retention, '1 minute', '10 years'
  );
  perform queue._check_span('failed_retention', set_policy.failed_retention, '1 minute', '10 years');

  if not v_unset <@ v_names then
    raise exception 'unset % is unknown', v_unset
      using errcode = 'RL400', hint = 'unset names some of ' || array_to_string(v_names, ', ') || '.';
  end if;

  insert into queue.policies as policy (queue)
  values (set_policy.queue)
  on conflict do nothing;

  update queue.policies as policy
  set lease = coalesce(
        set_policy.lease, case when 'lease' <> all (v_unset) then policy.lease end
      ),
      timeout = coalesce(
        set_policy.timeout, case when 'timeout' <> all (v_unset) then policy.timeout end
      ),
      max_attempts = coalesce(
        set_policy.max_attempts,
        case when 'max_attempts' <> all (v_unset) then policy.max_attempts end
      ),
      backoff_base = coalesce(
        set_policy.backoff_base,
        case when 'backoff_base' <> all (v_unset) then policy.backoff_base end
      ),
      backoff_cap = coalesce(
        set_policy.backoff_cap,
        case when 'backoff_cap' <> all (v_unset) then policy.backoff_cap end
      ),
      finished_retention = coalesce(
        set_policy.finished_retention,
        case when 'finished_retention' <> all (v_unset) then policy.finished_retention end
      ),
      failed_retention = coalesce(
        set_policy.failed_retention,
        case when 'failed_retention' <> all (v_unset) then policy.failed_retention end
      )
  where policy.queue = set_policy.queue
  returning policy.* into v_policy;

  perform queue._check_span(
    'backoff_base', v_policy.backoff_base, '1 millisecond', v_policy.backoff_cap
  );

  if v_unset <> '{}'
    or num_nonnulls(
      set_policy.lease, set_policy.timeout, set_policy.max_attempts, set_policy.backoff_base,
      set_policy.backoff_cap, set_policy.finished_retention, set_policy.failed_retention
    ) > 0
  then
    perform queue._record_action(
      'set_policy',
      set_policy.queue,
      set_policy.reason,
      to_jsonb(v_policy) - '{queue,paused_at,paused_until,paused_by,pause_reason}'::text[]
    );
  end if;

  return query
    select listed.name, to_jsonb(v_policy) ->> listed.name
    from unnest(v_names) as listed (name);
end;
$$;

comment on function queue.set_policy is 'What differs for a queue from the settings';
grant execute on function queue.set_policy to queue_operator;
