-- The history: one row a transition, written in the transition's own transaction, never changed.
-- A day is a partition; retention drops whole days. What no day takes falls into the default one.

create domain queue.event as text constraint event_is_known
  check (
    value in (
      'enqueued', 'claimed', 'made_due', 'reprioritized', 'progressed', 'succeeded',
      'retry_scheduled', 'failed', 'lease_expired', 'timed_out', 'released', 'snoozed',
      'cancelled', 'cancel_requested', 'retried', 'discarded'
    )
  );

create table queue.job_events (
  id bigint generated always as identity,
  at timestamptz not null,
  xid xid8 not null default pg_current_xact_id(),
  job_id bigint not null,
  attempt integer not null,
  fence integer not null,
  elapsed interval,
  event queue.event not null,
  from_status text,
  to_status text not null,
  queue text not null,
  kind text not null,
  worker text,
  actor text not null default session_user,
  detail jsonb
) partition by range (at);

create index job_events_of_job on queue.job_events (job_id, id);

-- Followers read what committed since their last look: by transaction, not by id. The id is for going on
-- within a transaction that is larger than a page.
create index job_events_of_transaction on queue.job_events (xid, id);

-- For people, and for what came with a dump: the latest, page by page.
create index job_events_in_order on queue.job_events (id);

create table queue.job_events_default partition of queue.job_events default;

comment on column queue.job_events.elapsed is
  'Of claimed: how long the job had been due; of what ends a claim: how long it ran';

comment on table queue.job_events is 'Append-only: one row a transition, by day.';

do $$
declare
  v_day date;
begin
  for v_day in
    select (now() at time zone 'utc')::date + day from generate_series(-1, 14) as day
  loop
    execute format(
      'create table queue.%I partition of queue.job_events for values from (%L) to (%L)',
      'job_events_' || to_char(v_day, 'YYYYMMDD'),
      to_char(v_day, 'YYYY-MM-DD') || ' 00:00:00+00',
      to_char(v_day + 1, 'YYYY-MM-DD') || ' 00:00:00+00'
    );
  end loop;
end;
$$;
