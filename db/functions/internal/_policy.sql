-- queue._policy: what holds for a queue, its own policy before the settings
create or replace function queue._policy(p_queue text, p_now timestamptz)
returns table (
  paused boolean,
  lease interval,
  timeout interval,
  max_attempts integer,
  backoff_base interval,
  backoff_cap interval,
  finished_retention interval,
  failed_retention interval
)
language sql
stable
as $$
  select
    policy.paused_at is not null and coalesce(policy.paused_until > p_now, true),
    coalesce(policy.lease, settings.lease),
    policy.timeout,
    coalesce(policy.max_attempts, settings.max_attempts),
    coalesce(policy.backoff_base, settings.backoff_base),
    coalesce(policy.backoff_cap, settings.backoff_cap),
    coalesce(policy.finished_retention, settings.finished_retention),
    coalesce(policy.failed_retention, settings.failed_retention)
  from queue.settings as settings
    left join queue.policies as policy on policy.queue = p_queue;
$$;

comment on function queue._policy is 'What holds for a queue: its policy before the settings';
