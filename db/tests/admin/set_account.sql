begin;
select no_plan();

select queue.create_account('alice', 'viewer', 'scrypt:a-hash-of-some-length');
prepare account as select role, password_hash, disabled_at is not null from queue.accounts;

select queue.set_account('alice', role => 'admin', reason => 'promoted');
select results_eq(
  'account', $$ values ('admin', 'scrypt:a-hash-of-some-length', false) $$, 'The role changes alone'
);
select is(
  (select detail from queue.audit where action = 'set_account' order by id desc limit 1),
  '{"role": "admin", "account": "alice"}'::jsonb,
  'The audit shows what changed'
);
select queue.set_account('alice', password_hash => 'scrypt:another-hash-of-it');
select results_eq(
  'account', $$ values ('admin', 'scrypt:another-hash-of-it', false) $$,
  'The password changes alone'
);
select is(
  (
    select detail ->> 'password'
    from queue.audit
    where action = 'set_account'
    order by id desc
    limit 1
  ),
  'changed',
  'The audit never has a hash'
);
select queue.set_account('alice', disabled => true);
select results_eq(
  'account', $$ values ('admin', 'scrypt:another-hash-of-it', true) $$, 'It can be disabled'
);
select queue.set_account('alice');
select results_eq(
  'account', $$ values ('admin', 'scrypt:another-hash-of-it', true) $$, 'Nulls leave it as it is'
);
select is(
  (select count(*)::integer from queue.audit where action = 'set_account'), 3, 'and are no action'
);
select queue.set_account('alice', disabled => false);
select results_eq(
  'account', $$ values ('admin', 'scrypt:another-hash-of-it', false) $$, 'It can be enabled again'
);

create temp table session as select queue.start_session('alice') as secret;
select queue.set_account('alice', reason => 'nothing');
select isnt_empty(
  'select queue.check_session(secret) from session', 'Nor do they end a session'
);
create temp table link as select queue.create_link('alice') as secret;
select queue.set_account('alice', password_hash => 'scrypt:yet-another-hash-of-it');
select is(queue.redeem_link((select secret from link)), null, 'A link from before signs nobody in');

select throws_ok(
  $$ select queue.set_account('mallory', 'viewer') $$, 'RL404', null,
  'An unknown account is refused'
);
select throws_ok(
  $$ select queue.set_account('alice', 'root') $$, 'RL400', null, 'An unknown role is refused'
);

select * from finish();
rollback;
