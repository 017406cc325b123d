begin;
select no_plan();

-- The transaction writes as another would: its own writes come to a follower after its commit, so
-- what is read here has the transaction id of one that ended long ago.
create function pg_temp.past(kind text, xid xid8, n integer default 1)
returns void language sql as $$
  insert into queue.job_events (at, xid, job_id, attempt, fence, event, to_status, queue, kind)
  select now(), xid, n, 0, 0, 'enqueued', 'queued', 'default', kind from generate_series(1, n) as n;
$$;
create function pg_temp.cluster()
returns text language sql as $$ select (pg_control_system()).system_identifier::text $$;
-- A cursor as of a snapshot.
create function pg_temp.cursor_at(snapshot text)
returns text language sql as $$ select pg_temp.cluster() || '/' || snapshot $$;
create function pg_temp.read(cursor text, max_events integer default 1000)
returns text language sql as $$
  select string_agg(kind || coalesce('.' || job_id, ''), ' ' order by ordinality)
  from queue.read_events(cursor, max_events) with ordinality;
$$;

create temp table first as select * from queue.read_events();
select results_eq(
  $$
    select num_nulls(id, at, job_id, queue, kind, event, to_status, detail), next_cursor from first
  $$,
  $$ values (8, concat_ws('/', pg_temp.cluster(), queue._snapshot())) $$,
  'Without a cursor it answers where now is, and nothing else'
);

select pg_temp.past('a', '100');
select pg_temp.past('c', '103');
select pg_temp.past('b', '102');
select results_eq(
  $$
    select
      id, at, job_id, queue, kind, event, from_status, to_status, attempt, fence, elapsed, worker,
      actor, detail
    from queue.read_events('start')
  $$,
  $$
    select
      id, at, job_id, queue, kind, event, from_status, to_status, attempt, fence, elapsed, worker,
      actor, detail
    from queue_tests.job_events order by xid, id
  $$,
  'From the start every event kept comes whole, transaction by transaction'
);
select is(count(distinct next_cursor), 1::bigint, 'The cursor is the same on every row')
from queue.read_events('start');
select is(
  (select pg_temp.read(min(next_cursor)) from queue.read_events('start')), null,
  'Behind a page that was not full nothing is left'
);

-- What a snapshot does not see is new, whatever the order of commits.
select is(pg_temp.read(pg_temp.cursor_at(snapshot)), want, rule)
from (
  values
    ('101:101:', 'b.1 c.1', 'What began after the cursor is new'),
    ('103:103:', 'c.1', 'and what began before is not'),
    ('100:103:100,102', 'a.1 b.1 c.1', 'What was open at the cursor is new'),
    ('102:104:102', 'b.1', 'though its neighbours are known'),
    ('104:104:', null, 'When all is known nothing is new')
) as page (snapshot, want, rule);

-- Pages.
select pg_temp.past('big', '105', 7);
create function pg_temp.pages(cursor text, max_events integer)
returns text language plpgsql as $$
declare
  v_cursor text := cursor;
  v_told text;
  v_page record;
begin
  for page in 1..20 loop
    select count(id) as events, string_agg(kind || job_id, ' ') as told, min(next_cursor) as next
    into v_page
    from queue.read_events(v_cursor, max_events);
    exit when v_page.events = 0;
    v_told := concat_ws(', ', v_told, v_page.told);
    v_cursor := v_page.next;
  end loop;
  return v_told;
end $$;
select is(
  pg_temp.pages('start', 4), 'a1 b1 c1 big1, big2 big3 big4 big5, big6 big7',
  'Pages go on within a transaction, without gap or overlap'
);
select is(
  pg_temp.pages(pg_temp.cursor_at('100:104:100,103'), 2),
  'a1 c1, big1 big2, big3 big4, big5 big6, big7',
  'Late commits are paged in the order of transactions, too'
);
select is(
  pg_temp.pages('start', 5), 'a1 b1 c1 big1 big2, big3 big4 big5 big6 big7',
  'A last page that is full is followed by an empty one'
);

-- One's own.
select queue_tests.enqueue_one('own');
select is(
  pg_temp.read((select next_cursor from first)), null,
  'What the reading transaction wrote is not read'
);
select unalike(pg_temp.read('start'), '%own%', 'not even from the start');
select ok(
  (
    select not pg_visible_in_snapshot(
      pg_current_xact_id(), split_part(min(next_cursor), '/', 2)::pg_snapshot
    )
    from queue.read_events('start')
  ),
  'The cursor says that it is still to come'
);

-- A cursor of the future: a snapshot older than it reads nothing, and stays there.
select is(
  (select next_cursor from queue.read_events(pg_temp.cursor_at('4000000000:4000000000:'))),
  pg_temp.cursor_at('4000000000:4000000000:'),
  'Behind an older snapshot the cursor does not go back'
);

-- A page within a huge transaction costs what a page does.
select pg_temp.past('huge', '200', 3000);
create temp table middle as
select id from queue_tests.job_events where kind = 'huge' and job_id = 1500;
create temp table reads as select queue_tests.rows_read('queue.job_events') as rows;
select is(
  (
    select count(*)
    from middle, queue.read_events(pg_temp.cursor_at('199:199:/201:201:/200/' || middle.id), 100)
  ),
  100::bigint, 'A page in the midst of a huge transaction'
);
select cmp_ok(
  queue_tests.rows_read('queue.job_events') - (select rows from reads), '<=', 200::bigint,
  'does not begin at its start'
);
delete from queue.job_events where kind = 'huge';

-- What came with a dump.
update queue.settings
set adopted_event_id = (select max(id) from queue_tests.job_events where kind in ('a', 'b', 'c'));
delete from queue.job_events where kind = 'big';
select pg_temp.past('new', '101', 2);
update queue.job_events set xid = '9000000000000' where kind = 'a';
select is(
  pg_temp.pages('start', 2), 'a1 c1, b1 new1, new2',
  'Events of a restored dump come first, by id, whatever their transaction ids'
);
select is(pg_temp.pages('start', 3), 'a1 c1 b1, new1 new2', 'on pages that end with them, too');
select is(
  pg_temp.read(pg_temp.cursor_at('102:104:102')), null,
  'No transaction id of theirs means anything any more'
);
select results_eq(
  $$ select id is null, next_cursor like pg_temp.cluster() || '/%' from queue.read_events() $$,
  $$ values (true, true) $$,
  'Now is after them'
);

select throws_ok(format('select queue.read_events(%L)', cursor), code, null, rule)
from (
  values
    ('nonsense', 'RL400', 'A cursor is one that was given'),
    ('', 'RL400', 'and not nothing'),
    (pg_temp.cluster() || '/', 'RL400', 'It has a snapshot'),
    (pg_temp.cluster() || '/x:y:', 'RL400', 'that is one'),
    (pg_temp.cluster() || '/5:5:/6:6:/1/z', 'RL400', 'and a place that is one'),
    ('7/100:100:', 'RL409', 'A cursor of another cluster is refused')
) as wrong (cursor, code, rule);
select throws_ok(format('select queue.read_events(null, %s)', max_events), 'RL400', null, rule)
from (
  values ('0', 'A page has an event at least'), ('10001', 'and 10,000 at most'),
    ('null', 'and a size')
) as wrong (max_events, rule);
update queue.settings set system_identifier = 1;
select throws_ok(
  $$ select queue.read_events('start') $$, 'RL503', null,
  'A restored dump that nobody has noticed is RL503'
);
select queue._adopt_cluster();

set local role queue_worker;
select throws_ok($$ select queue.read_events() $$, '42501', null, 'A worker may not follow');
set local role queue_viewer;
select lives_ok($$ select queue.read_events() $$, 'A viewer may');
reset role;

select * from finish();
rollback;
