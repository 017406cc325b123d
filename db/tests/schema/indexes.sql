begin;
select no_plan();

select results_eq(
  $$
    select index.indexrelid::regclass::text,
      regexp_replace(pg_get_indexdef(index.indexrelid), '^.* USING ', ''),
      index.indisunique
    from pg_index as index
    where index.indrelid = 'queue.jobs'::regclass
    order by 1
  $$,
  $$
    values
      (
        'queue.jobs_failed',
        'btree (finished_at, id) INCLUDE (queue, kind, error_group)'
          || ' WHERE (status = ''failed''::text)',
        false
      ),
      (
        'queue.jobs_idempotency',
        'btree (queue, idempotency_key) WHERE (idempotency_key IS NOT NULL)',
        true
      ),
      ('queue.jobs_pkey', 'btree (id)', true),
      (
        'queue.jobs_ready',
        'btree (queue, priority, available_at, created_at, id) WHERE (status = ''queued''::text)',
        false
      ),
      (
        'queue.jobs_retrying',
        'btree (queue, available_at)'
          || ' WHERE ((status = ''queued''::text) AND (error_type IS NOT NULL))',
        false
      ),
      ('queue.jobs_running', 'btree (queue, id) WHERE (status = ''running''::text)', false)
  $$,
  'Jobs have the primary key, the claim order, the running, the keys, those to retry, the failed'
);
select results_eq(
  $$
    select
      index.indexrelid::regclass::text,
      regexp_replace(pg_get_indexdef(index.indexrelid), '^.* USING ', '')
    from pg_index as index
    where index.indrelid = 'queue.job_events'::regclass
    order by 1
  $$,
  $$
    values
      ('queue.job_events_in_order', 'btree (id)'),
      ('queue.job_events_of_job', 'btree (job_id, id)'),
      ('queue.job_events_of_transaction', 'btree (xid, id)')
  $$,
  'Events are found by job, by transaction and in order'
);
select is_empty(
  $$
    select part.inhrelid::regclass::text
    from pg_inherits as part
    where part.inhparent = 'queue.job_events'::regclass
      and (
        select count(*)
        from pg_index as index
        where index.indrelid = part.inhrelid
          and index.indisvalid
      ) <> 3
  $$,
  'Each day''s partition has all of them'
);
select is(
  (
    select count(*)::integer from pg_index as index
      join pg_attribute as attribute on attribute.attrelid = index.indrelid
        and attribute.attnum = any (index.indkey)
    where index.indrelid = 'queue.jobs'::regclass
      and attribute.attname in (
        'lease_expires_at', 'deadline_at', 'progress', 'progress_message', 'cancel_requested_at',
        'worker'
      )
  ),
  0,
  'Nothing that changes while a job runs is indexed'
);

-- HOT ---------------------------------------------------------------------------------------------

create function pg_temp.updates(out total bigint, out hot bigint) language sql as $$
  select pg_stat_get_xact_tuples_updated('queue.jobs'::regclass),
    pg_stat_get_xact_tuples_hot_updated('queue.jobs'::regclass);
$$;
create temp table counts (step text, total bigint, hot bigint);

select queue_tests.run_one('renewed', timeout => '1 h');
insert into counts select 'claimed', * from pg_temp.updates();
do $$
begin
  for n in 1 .. 20 loop
    perform queue.renew(array[queue_tests.job_id('renewed')], '{1}');
  end loop;
end;
$$;
insert into counts select 'renewed', * from pg_temp.updates();
select count(queue.progress(queue_tests.job_id('renewed'), 1, n, 'step'))
from generate_series(1, 20) as n;
select queue.cancel(queue_tests.job_id('renewed'));
insert into counts select 'progressed', * from pg_temp.updates();
select results_eq(
  $$
    select later.step, later.total - earlier.total, later.hot - earlier.hot
    from counts as later
      join counts as earlier
        on (earlier.step, later.step) in (('claimed', 'renewed'), ('renewed', 'progressed'))
    order by later.total
  $$,
  $$ values ('renewed', 20::bigint, 20::bigint), ('progressed', 21, 21) $$,
  'Renewals, progress and a cancel request touch no index: their updates are HOT'
);
select ok(
  (select 'fillfactor=80' = any (reloptions) from pg_class where oid = 'queue.jobs'::regclass),
  'Pages keep room for them'
);

select * from finish();
rollback;
