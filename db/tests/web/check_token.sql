begin;
select no_plan();

create temp table made as select * from queue.create_token('ci', 'producer', '1 hour');
prepare check_it as select id, name, role from queue.check_token((select secret from made));

select results_eq(
  'check_it', $$ select id, 'ci', 'producer' from made $$, 'A token tells its name and role'
);
select ok((select used_at is not null from queue.tokens), 'Its use is noted');
select is_empty(
  $$ select * from queue.check_token('rowlock_guess') $$, 'A wrong secret is no token'
);
select is_empty($$ select * from queue.check_token(null) $$, 'No secret is no token');

update queue.tokens set expires_at = clock_timestamp() - interval '1 second';
select is_empty('check_it', 'An expired token is worth nothing');

update queue.tokens set expires_at = null;
select results_eq(
  'check_it', $$ select id, 'ci', 'producer' from made $$, 'A token without an end lasts'
);

select queue.revoke_token((select id from made));
select is_empty('check_it', 'A revoked token is worth nothing');

select * from finish();
rollback;
