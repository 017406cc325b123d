begin;
select no_plan();

set local lc_messages = 'C';

select queue_tests.enqueue_one('queued', 'queued', max_attempts => 2);
select queue_tests.run_one('running', max_attempts => 2);
select queue_tests.run_one('succeeded');
select queue.complete(queue_tests.job_id('succeeded'), 1);
select queue_tests.run_one('failed', max_attempts => 1);
select queue.fail(queue_tests.job_id('failed'), 1, 'E');
select queue_tests.enqueue_one('cancelled', 'cancelled');
select queue.cancel(queue_tests.job_id('cancelled'));
insert into queue.policies (queue) values ('any');
insert into queue.accounts (account, role) values ('ann', 'viewer');
insert into queue.tokens (name, role, digest, created_by) values ('ci', 'producer', 'x', 'ann');
insert into queue.rollups
values ('minute', now(), 'q', 'k', 'claimed', 'queued', 'running', 1);

-- Each breaks the one rule it names.
create temp table violations (relation text, rule text, change text, what text);
insert into violations
values
  (
    'jobs', 'status_is_known', 'status = ''done'' where kind = ''succeeded''',
    'there is no sixth status'
  ),
  (
    'jobs', 'queued_can_run', 'worker = ''w'' where kind = ''queued''', 'a queued job has no worker'
  ),
  ('jobs', 'queued_can_run', 'lease_expires_at = now() where kind = ''queued''', 'nor a lease'),
  ('jobs', 'queued_can_run', 'deadline_at = now() where kind = ''queued''', 'nor a deadline'),
  ('jobs', 'queued_can_run', 'finished_at = now() where kind = ''queued''', 'nor a finish time'),
  (
    'jobs', 'queued_can_run', 'attempt = 2, fence = 2 where kind = ''queued''',
    'what is queued can be claimed'
  ),
  (
    'jobs', 'queued_can_run', 'cancel_requested_at = now() where kind = ''queued''',
    'nobody is to stop what does not run'
  ),
  (
    'jobs', 'running_is_leased', 'worker = null where kind = ''running''',
    'a running job has a worker'
  ),
  ('jobs', 'running_is_leased', 'lease_expires_at = null where kind = ''running''', 'and a lease'),
  ('jobs', 'running_is_leased', 'started_at = null where kind = ''running''', 'and has begun'),
  (
    'jobs', 'running_is_leased', 'finished_at = now() where kind = ''running''', 'and has not ended'
  ),
  (
    'jobs', 'finished_has_ended', 'finished_at = null where kind = ''succeeded''',
    'a finished job has a finish time'
  ),
  ('jobs', 'finished_has_ended', 'worker = ''w'' where kind = ''succeeded''', 'and no worker'),
  (
    'jobs', 'finished_has_ended', 'lease_expires_at = now() where kind = ''failed''', 'and no lease'
  ),
  (
    'jobs', 'finished_has_ended', 'deadline_at = now() where kind = ''cancelled''',
    'and no deadline'
  ),
  (
    'jobs', 'attempt_is_counted', 'attempt = 3, fence = 3 where kind = ''running''',
    'no attempt beyond the last'
  ),
  ('jobs', 'attempt_is_counted', 'attempt = -1 where kind = ''running''', 'none before the first'),
  (
    'jobs', 'max_attempts_in_range', 'max_attempts = 100001 where kind = ''running''',
    'attempts have a bound'
  ),
  (
    'jobs', 'max_attempts_in_range', 'max_attempts = 0 where kind = ''cancelled''',
    'there is one at least'
  ),
  ('jobs', 'attempt_is_counted', 'fence = 0 where kind = ''running''', 'each attempt had a fence'),
  ('jobs', 'priority_in_range', 'priority = 10 where kind = ''queued''', 'ten priorities'),
  ('jobs', 'priority_in_range', 'priority = -1 where kind = ''queued''', 'from 0'),
  ('jobs', 'is_a_name', 'queue = ''A'' where kind = ''queued''', 'a queue is a name'),
  ('jobs', 'is_a_name', 'queue = repeat(''a'', 64) where kind = ''queued''', 'of 63 characters'),
  ('jobs', 'is_a_name', 'kind = '''' where kind = ''queued''', 'a kind is a name'),
  ('jobs', 'is_a_name', 'kind = repeat(''a'', 64) where kind = ''queued''', 'of 63 characters'),
  ('jobs', 'worker_fits', 'worker = '''' where kind = ''running''', 'a worker has an id'),
  (
    'jobs', 'worker_fits', 'worker = repeat(''w'', 129) where kind = ''running''',
    'of 128 characters'
  ),
  (
    'jobs', 'idempotency_key_fits', 'idempotency_key = '''' where kind = ''queued''',
    'a key is not empty'
  ),
  (
    'jobs', 'idempotency_key_fits', 'idempotency_key = repeat(''k'', 256) where kind = ''queued''',
    'nor long'
  ),
  ('jobs', 'lease_in_range', 'lease = ''0'' where kind = ''queued''', 'a lease lasts'),
  ('jobs', 'lease_in_range', 'lease = ''25 hours'' where kind = ''queued''', 'a day at most'),
  ('jobs', 'timeout_in_range', 'timeout = ''0'' where kind = ''queued''', 'a timeout leaves time'),
  ('jobs', 'timeout_in_range', 'timeout = ''8 days'' where kind = ''queued''', 'a week at most'),
  (
    'jobs', 'queued_can_run', 'available_at = ''infinity'' where kind = ''queued''',
    'a job is due some day'
  ),
  ('jobs', 'is_an_object', 'headers = ''[]'' where kind = ''queued''', 'headers have names'),
  (
    'jobs', 'progress_in_range', 'progress = 101 where kind = ''running''',
    'progress is a percentage'
  ),
  ('jobs', 'progress_in_range', 'progress = -1 where kind = ''running''', 'not less than nothing'),
  (
    'jobs', 'progress_message_fits',
    'progress_message = repeat(''m'', 1001) where kind = ''running''', 'a message is short'
  ),
  (
    'jobs', 'error_type_fits', 'error_type = repeat(''e'', 201) where kind = ''failed''',
    'an error type is short'
  ),
  (
    'jobs', 'error_message_fits', 'error_message = repeat(''é'', 8193) where kind = ''failed''',
    'a message has 16 kB'
  ),
  ('job_events', 'event_is_known', 'event = ''exploded''', 'events are those of DESIGN''s table'),
  ('settings', 'there_is_one_row', 'only_row = false', 'settings are one row'),
  ('settings', 'lease_in_range', 'lease = ''0''', 'a lease lasts'),
  ('settings', 'max_attempts_in_range', 'max_attempts = 0', 'there is an attempt'),
  ('settings', 'backoff_in_range', 'backoff_base = ''0''', 'a backoff is no busy loop'),
  (
    'settings', 'backoff_in_range', 'backoff_base = ''2 h'', backoff_cap = ''1 h''',
    'its base is below its cap'
  ),
  ('settings', 'backoff_in_range', 'backoff_cap = ''31 days''', 'which is bounded'),
  ('settings', 'retention_in_range', 'events_retention = ''1 s''', 'what ends can be looked at'),
  ('settings', 'retention_in_range', 'failed_retention = ''11 years''', 'but not for ever'),
  ('settings', 'tick_interval_in_range', 'tick_interval = ''2 min''', 'ticks are frequent'),
  ('policies', 'is_a_name', 'queue = ''A''', 'a queue is a name'),
  ('policies', 'pause_is_whole', 'paused_at = now()', 'a pause says who'),
  ('policies', 'pause_is_whole', 'paused_by = ''me''', 'and since when'),
  ('policies', 'pause_is_whole', 'paused_until = now()', 'no end without a pause'),
  ('policies', 'pause_is_whole', 'pause_reason = ''r''', 'nor a reason'),
  (
    'policies', 'pause_reason_fits',
    'paused_at = now(), paused_by = ''me'', pause_reason = repeat(''r'', 1001)', 'a reason is short'
  ),
  ('policies', 'lease_in_range', 'lease = ''25 h''', 'a lease is a day at most'),
  ('policies', 'timeout_in_range', 'timeout = ''8 days''', 'a timeout is a week at most'),
  ('policies', 'max_attempts_in_range', 'max_attempts = 100001', 'attempts have a bound'),
  ('policies', 'backoff_in_range', 'backoff_base = ''0''', 'a backoff is no busy loop'),
  ('policies', 'backoff_in_range', 'backoff_cap = ''31 days''', 'and bounded'),
  ('policies', 'retention_in_range', 'failed_retention = ''1 s''', 'what ends can be looked at'),
  ('policies', 'retention_in_range', 'finished_retention = ''11 years''', 'but not for ever'),
  ('rollups', 'grain_is_known', 'grain = ''week''', 'a grain is a minute, an hour or ever'),
  ('rollups', 'buckets_are_17', 'buckets = ''{1}''', 'and 17 buckets'),
  ('accounts', 'account_is_a_name', 'account = ''Ann!''', 'an account is a name'),
  ('accounts', 'role_is_known', 'role = ''owner''', 'with one of three roles'),
  ('accounts', 'password_hash_fits', 'password_hash = ''secret''', 'a password is never kept'),
  ('tokens', 'name_fits', 'name = ''''', 'a token has a name'),
  ('tokens', 'role_is_known', 'role = ''owner''', 'and one of five roles');

select throws_ok(
  format('update queue.%I set %s', relation, change),
  '23514',
  null,
  format('%s: %s', rule, what)
)
from violations;

-- throws_ok compares codes; this compares names.
create function pg_temp.refused_by(change text) returns text language plpgsql as $$
declare
  v_name text;
begin
  execute change;
  return null;
exception
  when check_violation then
    get stacked diagnostics v_name = constraint_name;
    return v_name;
end;
$$;
select is_empty(
  $$
    select relation, rule, change from violations
    where pg_temp.refused_by(
      format('update queue.%I set %s', relation, change)
    ) is distinct from rule
  $$,
  'Each is refused by the rule it breaks'
);
select is_empty(
  $$
    select known.conrelid::regclass::text, known.conname
    from pg_constraint as known
    where known.connamespace = 'queue'::regnamespace
      and known.contype = 'c'
      and known.conparentid = 0
      and not exists (select from pg_inherits as part where part.inhrelid = known.conrelid)
      and not exists (
        select from violations as tested
        where tested.rule = known.conname
          -- Or a domain's, wherever it shows.
          and (
            known.contypid <> 0 or format('queue.%I', tested.relation)::regclass = known.conrelid
          )
      )
    except
    -- The bookkeeping of yoyo is not ours.
    select known.conrelid::regclass::text, known.conname from pg_constraint as known
    where known.conrelid::regclass::text ~ 'yoyo'
  $$,
  'Every rule of the schema is tested here'
);

-- What cannot be told by one row ------------------------------------------------------------------

select throws_ok(
  $$ insert into queue.settings default values $$, '23505', null, 'There is one row of settings'
);
select throws_ok(
  $$
    insert into queue.jobs (created_at, available_at, max_attempts, kind, idempotency_key)
    select now(), now(), 1, 'k', 'same' from generate_series(1, 2)
  $$,
  '23505', null, 'One job a key in a queue'
);
select lives_ok(
  $$
    insert into queue.jobs (created_at, available_at, max_attempts, kind, queue, idempotency_key)
    values (now(), now(), 1, 'k', 'a', 'same'), (now(), now(), 1, 'k', 'b', 'same'),
      (now(), now(), 1, 'k', 'a', null),
      (now(), now(), 1, 'k', 'a', null)
  $$,
  'The same key may be used in another queue, and no key as often as one likes'
);
select throws_ok(
  $$
    insert into queue.jobs (id, created_at, available_at, max_attempts, kind)
    values (1, now(), now(), 1, 'k')
  $$,
  '428C9', null, 'No statement chooses an id by accident'
);

select * from finish();
rollback;
