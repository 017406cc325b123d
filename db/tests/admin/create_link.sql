begin;
select plan(8);

select queue.create_account('alice', 'admin');

select matches(queue.create_link('alice'), '^[0-9a-f]{64}$', 'The answer is a secret of 256 bits');
select is_empty(
  $$
    select
    from queue.sign_in_links as link
    where encode(link.digest, 'hex') = queue.create_link('alice')
  $$,
  'Only its digest is kept'
);
select ok(
  (
    select bool_and(expires_at - clock_timestamp() between interval '9 minutes' and '10 minutes')
    from queue.sign_in_links
  ),
  'It lasts ten minutes'
);
select throws_ok(
  $$ select queue.create_link('mallory') $$, 'RL404', null, 'An unknown account gets none'
);
select throws_ok(
  $$ select queue.create_link('alice', '8 days') $$, 'RL400', null, 'It lasts seven days at most'
);
select throws_ok(
  $$ select queue.create_link('alice', '0') $$, 'RL400', null, 'It lasts a second at least'
);

select queue.create_account('bob', 'viewer');
select queue.set_account('bob', disabled => true);
select throws_ok(
  $$ select queue.create_link('bob') $$, 'RL409', null, 'Who is disabled gets none'
);

select queue.create_link('alice');
select is(
  (select action from queue.audit order by id desc limit 1), 'create_link', 'The audit shows it'
);

select * from finish();
rollback;
