begin;
select no_plan();

select lives_ok(
  $$ select queue.record_sign_in_failure('nobody', '10.0.0.1') $$, 'An unknown account counts too'
);
select results_eq(
  $$ select action, detail from queue.audit order by id desc limit 1 $$,
  $$ values ('sign_in_failed', '{"account": "nobody", "address": "10.0.0.1"}'::jsonb) $$,
  'The audit shows the failure'
);
select lives_ok(
  $$ select queue.record_sign_in_failure(repeat('x', 10000), repeat('y', 10000)) $$,
  'Names of any length are taken'
);
select is(
  (select max(length(account) + length(address)) from queue.sign_in_failures), 256,
  'They are cut before they are kept'
);
select lives_ok(
  $$ select queue.record_sign_in_failure(null, null) $$, 'No name is a name that is wrong'
);

insert into queue.sign_in_failures (at, account, address)
select clock_timestamp() - interval '1 hour', 'old', 'old' from generate_series(1, 250);
select queue.record_sign_in_failure('a', 'b');
select is(
  (select count(*)::integer from queue.sign_in_failures where account = 'old'), 150,
  'Each new failure removes up to 100 old ones'
);

select * from finish();
rollback;
