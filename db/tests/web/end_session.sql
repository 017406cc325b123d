begin;
select plan(4);

select queue.create_account('alice', 'operator');
create temp table started as select queue.start_session('alice') as secret;

select is((select queue.end_session(secret) from started), true, 'A session can be ended');
select is_empty(
  'select queue.check_session(secret) from started', 'It is worth nothing after that'
);
select is(
  (select queue.end_session(secret) from started), false,
  'Ending it again says that it was not there'
);
select is(queue.end_session(null), false, 'No secret ends no session');

select * from finish();
rollback;
