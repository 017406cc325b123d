begin;
select no_plan();

-- A schema ahead of all others, with functions, operators, types and tables named like those that
-- ours use (A37).
create schema hostile;
create function hostile.alarm() returns text language plpgsql as $$
begin
  raise exception 'something of the caller''s was called' using errcode = 'XX999';
end;
$$;
create function hostile.clock_timestamp() returns timestamptz language sql
  as $$ select hostile.alarm()::timestamptz $$;
create function hostile.jsonb_typeof(jsonb) returns text language sql
  as $$ select hostile.alarm() $$;
create function hostile.length(text) returns integer language sql
  as $$ select hostile.alarm()::integer $$;
create function hostile.octet_length(text) returns integer language sql
  as $$ select hostile.alarm()::integer $$;
create function hostile.format(text, variadic text[]) returns text language sql
  as $$ select hostile.alarm() $$;
create function hostile.jsonb_build_object(variadic text[]) returns jsonb language sql
  as $$ select hostile.alarm()::jsonb $$;
create function hostile.current_setting(text) returns text language sql
  as $$ select hostile.alarm() $$;
create function hostile.current_setting(text, boolean) returns text language sql
  as $$ select hostile.alarm() $$;
create function hostile.pg_current_xact_id() returns xid8 language sql
  as $$ select hostile.alarm()::xid8 $$;
create function hostile.regexp_replace(text, text, text, text) returns text language sql
  as $$ select hostile.alarm() $$;
create function hostile.md5(text) returns text language sql as $$ select hostile.alarm() $$;
create function hostile.unnest(bigint[], integer[]) returns setof bigint language sql
  as $$ select hostile.alarm()::bigint $$;
create function hostile.equal(text, text) returns boolean language sql
  as $$ select hostile.alarm()::boolean $$;
create function hostile.equal(bigint, bigint) returns boolean language sql
  as $$ select hostile.alarm()::boolean $$;
create function hostile.equal(integer, integer) returns boolean language sql
  as $$ select hostile.alarm()::boolean $$;
create function hostile.less(timestamptz, timestamptz) returns boolean language sql
  as $$ select hostile.alarm()::boolean $$;
create operator hostile.= (leftarg = text, rightarg = text, function = hostile.equal);
create operator hostile.= (leftarg = bigint, rightarg = bigint, function = hostile.equal);
create operator hostile.= (leftarg = integer, rightarg = integer, function = hostile.equal);
create operator hostile.<= (leftarg = timestamptz, rightarg = timestamptz, function = hostile.less);
create type hostile.interval as (broken integer);
create type hostile.timestamptz as (broken integer);
create table hostile.jobs (id integer);
create table hostile.policies (queue text);
create temp table jobs (id integer);
create temp table settings (lease text);
create temp table job_events (id integer);
grant usage on schema hostile to public;

-- The life of a few jobs. Its own text names all it uses, so that what goes wrong goes wrong in
-- ours.
create function pg_temp.life() returns table (step text, answer text) language plpgsql as $$
declare
  v_id bigint;
  v_fence integer;
begin
  step := 'enqueue';
  select created into answer
  from queue.enqueue(
    'a', '{"n": 1}', 'q', 9, delay => '-1 second', max_attempts => 3, lease => '90 seconds',
    timeout => '1 hour',
    idempotency_key => 'k', headers => '{"h": 1}'
  );
  return next;

  step := 'enqueue again';
  select created into answer from queue.enqueue('a', '{"n": 1}', 'q', idempotency_key => 'k');
  return next;

  step := 'enqueue_many';
  select pg_catalog.string_agg(made.created::text, ',') into answer
  from queue.enqueue_many(
    '[{"kind": "b", "queue": "q", "delay": "-00:00:01"},
      {"kind": "a", "queue": "q", "payload": {"n": 1}, "idempotency_key": "k"},
      {"kind": "c", "queue": "q", "available_at": "2020-02-01T12:00:00-03:00"},
      {"kind": "d", "queue": "q", "delay": "1 day 02:03:04"}]'
  ) as made;
  return next;

  step := 'next_due';
  answer := pg_catalog.date_part('epoch', queue.next_due('{q}'));
  return next;

  step := 'claim';
  select
    job_id, fence, pg_catalog.concat_ws(' ', kind, attempt, lease operator(pg_catalog.=) '90 s')
  into v_id, v_fence, answer
  from queue.claim('w', '{q}');
  return next;

  step := 'renew';
  select verdict into answer from queue.renew(array[v_id], array[v_fence]);
  return next;

  step := 'progress';
  answer := queue.progress(v_id, v_fence, 50, 'half');
  return next;

  step := 'fail';
  select status into answer
  from queue.fail(
    v_id, v_fence, 'E', E'it\'s "\\u0000" 7', E'{"a": "\\u0000\\\\ \\ud800"}', retry_in => '0'
  );
  return next;

  step := 'fail again';
  select status into answer from queue.fail(v_id, v_fence, 'E');
  return next;

  step := 'settle';
  select pg_catalog.string_agg(verdict, ',') into answer
  from queue.settle(
    (
      select pg_catalog.json_agg(
        case
          when kind operator(pg_catalog.=) 'a'
            then pg_catalog.json_build_object(
              'job_id', job_id, 'fence', fence, 'outcome', 'complete', 'result', 'done'
            )
          when kind operator(pg_catalog.=) 'b'
            then pg_catalog.json_build_object(
              'job_id', job_id, 'fence', fence, 'outcome', 'fail', 'error_type', 'E', 'retry_in',
              '1 minute'
            )
          else pg_catalog.json_build_object(
            'job_id', job_id, 'fence', fence, 'outcome', 'snooze', 'delay', '1 day 01:00:00'
          )
        end
      )
      from queue.claim('w', '{q}', 3)
    )
  );
  return next;

  step := 'pause';
  select paused_at is not null into answer from queue.pause(
    'q', 'lunch', pg_catalog.now() operator(pg_catalog.+) '1 hour'
  );
  return next;

  step := 'next_due of a paused queue';
  answer := pg_catalog.round(
    (pg_catalog.date_part('epoch', queue.next_due('{q}')) operator(pg_catalog./) 60)::numeric
  );
  return next;

  step := 'resume';
  answer := queue.resume('q');
  return next;

  step := 'stand_down';
  answer := queue.stand_down();
  return next;
end;
$$;

create temp table lives (which text, step text, answer text);
create temp table histories (
  which text, kind text, event text, to_status text, due_in interval, elapsed boolean, detail jsonb
);
create function pg_temp.remember(which text) returns void language sql as $$
  insert into histories
  select
    remember.which, item.kind, item.event, item.to_status,
    date_trunc('minute', (item.detail ->> 'available_at')::timestamptz - item.at),
    item.elapsed < '1 min',
    item.detail - 'available_at'
  from queue.job_events as item
  order by item.id;
  delete from queue.jobs;
  delete from queue.job_events;
$$;

insert into lives select 'usual', life.* from pg_temp.life() as life;
select pg_temp.remember('usual');
select set_config('test.path', current_setting('search_path'), true);

set local timezone = 'America/Sao_Paulo';
set local datestyle = 'German';
set local intervalstyle = 'sql_standard';
set local extra_float_digits = -15;
set local bytea_output = 'escape';
set local standard_conforming_strings = off;
set local escape_string_warning = off;
set local array_nulls = off;
set local enable_indexscan = off;
set local enable_sort = off;
set local plan_cache_mode = force_custom_plan;
set local row_security = off;
set local search_path = hostile, tap, public, pg_catalog, pg_temp;

insert into pg_temp.lives select 'hostile', life.* from pg_temp.life() as life;

select pg_catalog.set_config('search_path', pg_catalog.current_setting('test.path'), true);
set local standard_conforming_strings = on;
select pg_temp.remember('hostile');

select is(
  (select answer from lives where which = 'hostile' and step = usual.step),
  usual.answer,
  format('%s answers %s as in any session', usual.step, usual.answer)
)
from lives as usual where usual.which = 'usual';
select results_eq(
  $$
    select kind, event, to_status, due_in, elapsed, detail from histories where which = 'hostile'
  $$,
  $$ select kind, event, to_status, due_in, elapsed, detail from histories where which = 'usual' $$,
  'The history is the same to the letter'
);
select results_eq(
  $$
    select count(*)::integer, count(distinct event)::integer from histories where which = 'usual'
  $$,
  $$ values (13, 6) $$,
  'And there is one'
);
select throws_ok(
  $$
    set local search_path = hostile, pg_catalog;
    select length('a');
  $$,
  'XX999', null, 'The traps work'
);

select * from finish();
rollback;
