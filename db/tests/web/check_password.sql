begin;
select no_plan();

select queue.create_account('alice', 'operator', 'scrypt:a-hash-of-some-length');
select queue.create_account('bob', 'viewer');

select is(
  (select password_hash from queue.check_password('alice', '10.0.0.1')),
  'scrypt:a-hash-of-some-length',
  'The answer is the hash to compare with'
);
select results_eq(
  $$ select password_hash from queue.check_password('mallory', '10.0.0.1') $$,
  $$ values (null::text) $$,
  'An unknown account has no hash, and is no error'
);
select is(
  (select password_hash from queue.check_password('bob', '10.0.0.1')), null,
  'An account without a password has no hash'
);

select queue.record_sign_in_failure('alice', '10.0.0.1') from generate_series(1, 4);
select lives_ok(
  $$ select queue.check_password('alice', '10.0.0.1') $$, 'Four wrong passwords are forgiven'
);
select queue.record_sign_in_failure('alice', '10.0.0.1');
select throws_ok(
  $$ select queue.check_password('alice', '10.0.0.1') $$, 'RL429', null,
  'The fifth wrong password shuts the account for its address'
);
select lives_ok(
  $$ select queue.check_password('alice', '10.0.0.2') $$, 'Another address is not shut out with it'
);
select lives_ok(
  $$ select queue.check_password('bob', '10.0.0.1') $$, 'Another account is not shut out with it'
);

update queue.sign_in_failures set at = at - interval '16 minutes';
select lives_ok(
  $$ select queue.check_password('alice', '10.0.0.1') $$,
  'After a quarter of an hour it opens again'
);

select queue.record_sign_in_failure('user' || i, '10.0.0.3') from generate_series(1, 50) as i;
select throws_ok(
  $$ select queue.check_password('alice', '10.0.0.3') $$, 'RL429', null,
  'An address with 50 failures over many accounts is shut out'
);

select queue.record_sign_in_failure('alice', address) from generate_series(1, 5),
  (values (null), (repeat('1', 200))) as given (address);
select throws_ok(
  format('select queue.check_password(%L, %L)', 'alice', address), 'RL429', null,
  'An address that is none, or longer than is kept, counts like any other'
)
from (values (null), (repeat('1', 200))) as given (address);

select queue.set_account('alice', disabled => true);
select is(
  (select password_hash from queue.check_password('alice', '10.0.0.9')), null,
  'A disabled account has no hash'
);

select * from finish();
rollback;
