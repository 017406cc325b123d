begin;
select no_plan();

select is(
  queue._snapshot()::text, pg_current_snapshot()::text,
  'Before a transaction has an id its snapshot is the current one'
);
create temp table own as select pg_current_xact_id() as xid;
select ok(
  not pg_visible_in_snapshot(xid, queue._snapshot()), 'Afterwards it counts as still open itself'
)
from own;
select is(
  pg_snapshot_xmax(queue._snapshot()), pg_snapshot_xmax(pg_current_snapshot()),
  'The rest is the same: where it ends'
);
select results_eq(
  $$ select pg_snapshot_xip(queue._snapshot()) as xid except select xid from own order by 1 $$,
  $$ select pg_snapshot_xip(pg_current_snapshot()) as xid order by 1 $$,
  'and what else is open'
);
select cmp_ok(
  pg_snapshot_xmin(queue._snapshot())::text::numeric, '<=', (select xid::text::numeric from own),
  'It begins at the own transaction at the latest'
);

select * from finish();
rollback;
