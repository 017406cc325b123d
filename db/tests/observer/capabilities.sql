begin;
select no_plan();

grant queue_viewer, queue_operator, queue_admin to current_user;

set local role queue_viewer;
select is((select role from queue.capabilities()), 'viewer', 'A viewer is told so');
set local role queue_operator;
select is((select role from queue.capabilities()), 'operator', 'An operator is told so');
set local role queue_admin;
select is((select role from queue.capabilities()), 'admin', 'An admin is told so');
select is(
  (select read_only from queue.capabilities()), false, 'A writable transaction is not read-only'
);
select ok((select counters_age >= '0' from queue.capabilities()), 'The counters have an age');
select is(
  (select server_version from queue.capabilities()), current_setting('server_version'),
  'The server''s version is told'
);
select isnt((select version from queue.capabilities()), null, 'The deployed version is told');
reset role;

select set_config('transaction_read_only', 'on', true);
select ok((select read_only from queue.capabilities()), 'A read-only one is');

select * from finish();
rollback;
