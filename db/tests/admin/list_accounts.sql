begin;
select plan(2);

select queue.create_account('bob', 'viewer');
select queue.create_account('alice', 'admin', 'scrypt:a-hash-of-some-length');
select queue.start_session('alice');

select results_eq(
  $$
    select account, role, has_password, disabled_at is null, sessions from queue.list_accounts()
  $$,
  $$ values ('alice', 'admin', true, true, 1), ('bob', 'viewer', false, true, 0) $$,
  'Accounts are listed by name, with whether they have a password and are signed in'
);
update queue.sessions set seen_at = seen_at - interval '1 hour';
select is(
  (select sessions from queue.list_accounts() where account = 'alice'), 0,
  'Sessions that have ended do not count'
);

select * from finish();
rollback;
