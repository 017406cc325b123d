begin;
select no_plan();

select results_eq(
  $$ select name = session_user, session_user_name from queue._actor() $$,
  $$ values (true, null::text) $$,
  'Without a claim it is the session''s user'
);
set local rowlock.actor = 'alice@example.com';
select results_eq(
  $$ select name = 'alice@example.com', session_user_name = session_user from queue._actor() $$,
  $$ values (true, true) $$,
  'With one it is who is claimed, and the session''s user beside it'
);
set local rowlock.actor = '';
select ok((select name = session_user from queue._actor()), 'An empty claim is none');
select set_config('rowlock.actor', repeat('x', 300), true);
select is((select length(name) from queue._actor()), 255, 'A long one is cut');

select * from finish();
rollback;
