begin;
select no_plan();

select queue_tests.run_one('a');
select queue_tests.run_one('b');
select queue_tests.run_one('c');
select queue_tests.enqueue_one('queued', 'queued');
select queue.complete(queue_tests.job_id('c'), 1);

create function pg_temp.locked(ids bigint[], fences integer[]) returns setof text language sql as $$
  select job.kind
  from queue._lock_claims(ids, fences) as held
    cross join unnest(held.ctids) with ordinality as place (ctid, number)
    join queue.jobs as job on job.ctid = place.ctid
  order by place.number;
$$;
create function pg_temp.ids(variadic kinds text[]) returns bigint[] language sql as $$
  select array_agg(queue_tests.job_id(name) order by number)
  from unnest(kinds) with ordinality as kind (name, number);
$$;

select results_eq(
  $$ select * from pg_temp.locked(pg_temp.ids('a', 'b'), '{1,1}') $$,
  $$ values ('a'), ('b') $$,
  'Claims that hold are locked'
);
select is_empty(
  $$
    select * from pg_temp.locked(pg_temp.ids('a', 'b', 'c', 'queued') || -1::bigint, '{0,2,1,0,1}')
  $$,
  'Stale, unknown and settled ones are not'
);
select is_empty($$ select * from pg_temp.locked('{}', '{}') $$, 'No claims, no rows');
select results_eq(
  $$
    select held.workers
    from queue._lock_claims(pg_temp.ids('c', 'b', 'queued', 'a', 'b'), '{1,1,0,1,1}') as held
  $$,
  $$ values ('{null,tester,null,tester,tester}'::text[]) $$,
  'Answers come in the order asked: the worker, for the event, and null where a claim does not hold'
);

select * from finish();
rollback;
