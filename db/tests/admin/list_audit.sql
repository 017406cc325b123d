begin;
select no_plan();

select set_config('rowlock.actor', 'alice', true);
select queue.pause('default', 'a', clock_timestamp() + interval '1 hour');
select queue.resume('default', 'b');
select set_config('rowlock.actor', '', true);
select queue.pause('default', 'c');

select results_eq(
  $$ select action, queue, actor, session_user_name, reason from queue.list_audit(max_rows => 3) $$,
  $$
    values
      (
        'pause', 'default', session_user::text collate "default",
        session_user::text collate "default", 'c'
      ),
      ('resume', 'default', 'alice', session_user::text collate "default", 'b'),
      ('pause', 'default', 'alice', session_user::text collate "default", 'a')
  $$,
  'Actions are listed newest first: the claimed actor beside the session''s user'
);
select is(
  (
    select reason from queue.list_audit(
      (select min(id) from queue.list_audit(max_rows => 2)), 1
    )
  ),
  'a',
  'The cursor goes on before it'
);
select throws_ok('select queue.list_audit(max_rows => 0)', 'RL400', null, 'max_rows is at least 1');
select throws_ok(
  'select queue.list_audit(max_rows => 1001)', 'RL400', null, 'max_rows is at most 1,000'
);

select * from finish();
rollback;
