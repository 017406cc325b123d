begin;
select plan(2);

create temp table made as
select * from queue.create_token('one', 'producer')
union all
select * from queue.create_token('two', 'admin', null);
select queue.revoke_token(max(id)) from made;

select results_eq(
  $$
    select name, role, expires_at is null, revoked_at is null, used_at is null
    from queue.list_tokens()
  $$,
  $$ values ('two', 'admin', true, false, true), ('one', 'producer', false, true, true) $$,
  'Tokens are listed newest first, revoked ones too'
);
select hasnt_column('queue', 'tokens', 'secret', 'No secret is kept to be listed');

select * from finish();
rollback;
