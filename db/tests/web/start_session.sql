begin;
select no_plan();

select queue.create_account('alice', 'operator');
create temp table started as select queue.start_session('alice', '10.0.0.1', 'Firefox') as secret;

select matches(
  (select secret from started), '^[0-9a-f]{64}$', 'The answer is a secret of 256 bits'
);
select results_eq(
  $$ select digest, account, address, agent from queue.sessions $$,
  $$ select sha256(secret::bytea), 'alice', '10.0.0.1', 'Firefox' from started $$,
  'Only the digest of the secret is kept'
);
select isnt(
  queue.start_session('alice'), (select secret from started), 'Each session has a secret of its own'
);
select throws_ok(
  $$ select queue.start_session('mallory') $$, 'RL404', null, 'An unknown account gets none'
);
select throws_ok(
  $$ select queue.start_session(null) $$, 'RL404', 'there is no account null',
  'nor does none at all'
);
select queue.set_account('alice', disabled => true);
select throws_ok(
  $$ select queue.start_session('alice') $$, 'RL404', null, 'A disabled account gets none'
);

select queue.create_account('bob', 'viewer');
select queue.start_session('bob') from generate_series(1, 3);
update queue.sessions set seen_at = seen_at - interval '31 minutes';
select queue.start_session('bob');
select is(
  (select count(*)::integer from queue.sessions), 1, 'Ended sessions are removed on the way'
);

select * from finish();
rollback;
