-- What operators set: defaults for all queues (one row), exceptions and pauses per queue,
-- a record of who changed them, and when each maintenance step is due.

create table queue.settings (
  only_row boolean primary key default true,
  lease queue.lease not null default '60 seconds',
  max_attempts queue.attempts not null default 5,
  backoff_base interval not null default '2 seconds',
  backoff_cap interval not null default '1 hour',
  finished_retention interval not null default '7 days',
  failed_retention interval not null default '30 days',
  events_retention interval not null default '30 days',
  tick_interval interval not null default '5 seconds',
  claim_floor boolean not null default true,
  system_identifier bigint not null default (pg_control_system()).system_identifier,
  adopted_event_id bigint not null default 0,

  constraint there_is_one_row check (only_row),
  constraint backoff_in_range check (
    backoff_base between interval '1 millisecond' and backoff_cap
    and backoff_cap <= interval '30 days'
  ),
  constraint retention_in_range check (
    least(finished_retention, failed_retention, events_retention) >= interval '1 minute'
    and greatest(finished_retention, failed_retention, events_retention) <= interval '10 years'
  ),
  constraint tick_interval_in_range
    check (tick_interval between interval '1 second' and interval '1 minute')
);

insert into queue.settings default values;

comment on table queue.settings is 'What holds for all queues, unless a policy says otherwise: one row';
comment on column queue.settings.claim_floor is
  'Whether claims remember where dead index entries end (off: the plain claim)';
comment on column queue.settings.system_identifier is
  'The cluster whose transaction ids the events carry; another one means a restored dump';
comment on column queue.settings.adopted_event_id is
  'Events up to here came with a restored dump: their transaction ids say nothing here';

create table queue.policies (
  queue queue.identifier primary key,
  paused_at timestamptz,
  paused_until timestamptz,
  paused_by text,
  pause_reason text,
  lease queue.lease,
  timeout queue.timeout,
  max_attempts queue.attempts,
  backoff_base interval,
  backoff_cap interval,
  finished_retention interval,
  failed_retention interval,

  constraint pause_is_whole check (
    (paused_at is null) = (paused_by is null)
    and (paused_at is not null or (paused_until is null and pause_reason is null))
  ),
  constraint pause_reason_fits check (length(pause_reason) <= 1000),
  constraint backoff_in_range check (
    backoff_base between interval '1 millisecond' and interval '30 days'
    and backoff_cap between interval '1 millisecond' and interval '30 days'
  ),
  constraint retention_in_range check (
    least(finished_retention, failed_retention) >= interval '1 minute'
    and greatest(finished_retention, failed_retention) <= interval '10 years'
  )
);

comment on table queue.policies is 'Per queue: paused or not, and what differs from settings';

create table queue.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  action text not null,
  queue text,
  actor text not null,
  session_user_name text not null default session_user,
  reason text,
  detail jsonb
);

comment on table queue.audit is 'Operator actions that concern no single job. Append-only.';

create table queue.steps (
  step text primary key,
  every interval not null,
  due_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  processed bigint,
  failures integer not null default 0,
  error text,
  position bigint not null default 0,
  cursor text
) with (fillfactor = 50);

insert into queue.steps (step, every)
values ('reap', '5 seconds'), ('prune', '1 minute'), ('rotate_events', '1 hour');

comment on table queue.steps is 'Maintenance steps of tick(): when each is due and how it last went';

create table queue.deployments (
  deployed_at timestamptz primary key default clock_timestamp(),
  digest text not null,
  version text not null,
  deployed_by text not null default session_user
);

comment on table queue.deployments is 'Which functions are installed: the digest of db/functions';
