begin;
select no_plan();

select set_config('rowlock.actor', 'eve', true);
select lives_ok(
  $$
    select queue.record_refusal(
      'POST /jobs/1/retry', 'viewer', 'permission denied for function retry'
    )
  $$,
  'A refusal is recorded'
);
select results_eq(
  $$ select action, actor, reason, detail from queue.audit order by id desc limit 1 $$,
  $$
    values (
      'refused', 'eve', 'permission denied for function retry',
      '{"attempt": "POST /jobs/1/retry", "role": "viewer"}'::jsonb
    )
  $$,
  'With who tried what, as what, and why it was refused'
);
select lives_ok(
  $$ select queue.record_refusal(repeat('x', 5000), repeat('y', 5000), repeat('z', 5000)) $$,
  'Long texts are cut, not refused'
);
select ok(
  (
    select octet_length(detail::text) < 1000
      and octet_length(reason) <= 1000
    from queue.audit
    order by id desc
    limit 1
  ),
  'A row of the audit stays small'
);

select set_config('transaction_read_only', 'on', true);
select throws_ok(
  $$ select queue.record_refusal('POST /', 'viewer', 'no') $$, 'RL503', null,
  'On a standby the answer is not now'
);

select * from finish();
rollback;
