begin;
select no_plan();

select lives_ok(
  $$ select queue.create_account('alice', 'operator', 'scrypt:a-hash-of-some-length', 'on call') $$,
  'An account is made'
);
select results_eq(
  $$ select account, role, password_hash, disabled_at from queue.accounts $$,
  $$ values ('alice', 'operator', 'scrypt:a-hash-of-some-length', null::timestamptz) $$,
  'It is kept with its role and hash'
);
select results_eq(
  $$ select action, reason, detail from queue.audit order by id desc limit 1 $$,
  $$ values ('create_account', 'on call', '{"account": "alice", "role": "operator"}'::jsonb) $$,
  'The audit shows it, without the hash'
);
select throws_ok(
  $$ select queue.create_account('alice', 'admin') $$, 'RL409', null,
  'A second one of the name is refused'
);
select throws_ok(
  $$ select queue.create_account('Alice', 'admin') $$, 'RL400', null, 'Names are lower case'
);
select throws_ok(
  $$ select queue.create_account(null, 'admin') $$, 'RL400', null, 'A name is needed'
);
select throws_ok(
  $$ select queue.create_account('bob', 'root') $$, 'RL400', null, 'An unknown role is refused'
);
select throws_ok(
  $$ select queue.create_account('bob', 'producer') $$, 'RL400', null,
  'Producers have tokens, not accounts'
);
select throws_ok($$ select queue.create_account('bob', null) $$, 'RL400', null, 'A role is needed');
select throws_ok(
  $$ select queue.create_account('eve', 'viewer', 'secret') $$, 'RL400', null,
  'A password is no hash of one'
);
select lives_ok(
  $$ select queue.create_account('bob@example.com', 'viewer') $$, 'A mail address can be a name'
);

select * from finish();
rollback;
