begin;
select plan(5);

create temp table made as select * from queue.create_token('ci', 'producer');

select lives_ok('select queue.revoke_token(id, ''leaked'') from made', 'A token is revoked');
create temp table revoked as select revoked_at from queue.tokens;
select ok((select revoked_at is not null from revoked), 'It is marked, not removed');
select is(
  (select reason from queue.audit where action = 'revoke_token'), 'leaked', 'The audit shows why'
);
select queue.revoke_token(id) from made;
select is(
  (select revoked_at from queue.tokens), (select revoked_at from revoked),
  'Revoking again changes nothing'
);
select throws_ok('select queue.revoke_token(0)', 'RL404', null, 'An unknown token is refused');

select * from finish();
rollback;
