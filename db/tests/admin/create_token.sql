begin;
select no_plan();

create temp table made as select * from queue.create_token('ci', 'producer', '1 hour', 'builds');

select matches(
  (select secret from made), '^rowlock_[0-9a-f]{64}$',
  'The secret is 256 bits behind a name to search for'
);
select results_eq(
  $$ select id, name, role, digest, created_by, expires_at from queue.tokens $$,
  $$
    select
      id, 'ci', 'producer', sha256(secret::bytea), session_user::text collate "default", expires_at
    from made
  $$,
  'Only its digest is kept'
);
select ok(
  (
    select expires_at between clock_timestamp() + interval '59 minutes'
      and clock_timestamp() + interval '1 hour'
    from made
  ),
  'It ends after its lifetime'
);
select results_eq(
  $$ select action, reason, detail from queue.audit order by id desc limit 1 $$,
  $$
    select 'create_token', 'builds', jsonb_build_object('id', id, 'name', 'ci', 'role', 'producer')
    from made
  $$,
  'The audit shows it, without the secret'
);
select is(
  (select expires_at from queue.create_token('x', 'worker', null)), null,
  'Without a lifetime it has no end'
);
select ok(
  (
    select expires_at > clock_timestamp() + interval '89 days'
    from queue.create_token('x', 'worker')
  ),
  'It lasts 90 days when nothing is said'
);
select throws_ok($$ select queue.create_token('', 'worker') $$, 'RL400', null, 'A name is needed');
select throws_ok(
  $$ select queue.create_token(null, 'worker') $$, 'RL400', null, 'No name is no name'
);
select throws_ok(
  $$ select queue.create_token(repeat('x', 101), 'worker') $$, 'RL400', null,
  'A name has 100 characters at most'
);
select throws_ok(
  $$ select queue.create_token('x', 'owner') $$, 'RL400', null, 'An unknown role is refused'
);
select throws_ok(
  $$ select queue.create_token('x', 'worker', '11 years') $$, 'RL400', null,
  'It lasts ten years at most'
);
select throws_ok(
  $$ select queue.create_token('x', 'worker', '1 s') $$, 'RL400', null, 'It lasts a minute at least'
);

select * from finish();
rollback;
