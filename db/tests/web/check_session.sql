begin;
select no_plan();

select queue.create_account('alice', 'operator');
create temp table started as select queue.start_session('alice') as secret;
prepare check_it as select account, role from queue.check_session((select secret from started));

select results_eq(
  'check_it', $$ values ('alice', 'operator') $$, 'A session tells its account and role'
);
select is_empty($$ select * from queue.check_session('guess') $$, 'A wrong secret is no session');
select is_empty($$ select * from queue.check_session(null) $$, 'No secret is no session');

update queue.sessions set seen_at = seen_at - interval '29 minutes';
select results_eq(
  'check_it', $$ values ('alice', 'operator') $$, 'A session lasts half an hour without a request'
);
select ok(
  (select seen_at > clock_timestamp() - interval '1 minute' from queue.sessions),
  'A request keeps it going'
);
update queue.sessions set seen_at = seen_at - interval '20 minutes';
select results_eq(
  'select account from queue.check_session((select secret from started), touch => false)',
  $$ values ('alice') $$,
  'A page that polls is still signed in'
);
select ok(
  (select seen_at < clock_timestamp() - interval '19 minutes' from queue.sessions),
  'It does not keep the session going'
);
update queue.sessions set seen_at = clock_timestamp() - interval '31 minutes';
select is_empty('check_it', 'Without a request it ends after half an hour');

update queue.sessions
set seen_at = clock_timestamp(), started_at = started_at - interval '12 hours';
select is_empty('check_it', 'It ends after twelve hours whatever happens');

update queue.sessions set started_at = clock_timestamp();
select queue.set_account('alice', role => 'viewer');
select is_empty('check_it', 'A change of role ends it');

update started set secret = queue.start_session('alice');
select queue.set_account('alice', password_hash => 'scrypt:another-hash-of-it');
select is_empty('check_it', 'A change of password ends it');

update started set secret = queue.start_session('alice');
select queue.set_account('alice', disabled => true);
select is_empty('check_it', 'Disabling the account ends it');

select * from finish();
rollback;
