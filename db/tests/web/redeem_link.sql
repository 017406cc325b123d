begin;
select no_plan();

select queue.create_account('alice', 'admin');
create temp table link as select queue.create_link('alice') as secret;
create temp table session as
select queue.redeem_link(secret, '10.0.0.1', 'Firefox') as secret from link;

select results_eq(
  'select account, role from queue.check_session((select secret from session))',
  $$ values ('alice', 'admin') $$,
  'A link starts a session of its account'
);
select is((select queue.redeem_link(secret) from link), null, 'It does so once');
select is(queue.redeem_link('guess'), null, 'A wrong secret is no link');
select is(queue.redeem_link(null), null, 'No secret is no link');

update link set secret = queue.create_link('alice', '10 minutes');
update queue.sign_in_links set expires_at = expires_at - interval '11 minutes';
select is((select queue.redeem_link(secret) from link), null, 'An expired link is no link');
select is_empty('select from queue.sign_in_links', 'Expired links are removed');

-- As if both came at once: set_account takes links away, create_link gives none.
update link set secret = queue.create_link('alice');
update queue.accounts set disabled_at = now() where account = 'alice';
select throws_ok(
  'select queue.redeem_link(secret) from link', 'RL404', null,
  'A link of a disabled account signs nobody in'
);

select * from finish();
rollback;
