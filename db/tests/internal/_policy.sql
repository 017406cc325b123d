begin;
select no_plan();

update queue.settings
set lease = '11 s', max_attempts = 12, backoff_base = '13 s', backoff_cap = '14 s',
    finished_retention = '15 h', failed_retention = '16 h';

select results_eq(
  $$ select * from queue._policy('any', now()) $$,
  $$
    values (
      false, interval '11 s', null::interval, 12, interval '13 s', interval '14 s', interval '15 h',
      interval '16 h'
    )
  $$,
  'Without a policy the settings hold, and there is no timeout'
);
insert into queue.policies (queue) values ('bare');
select results_eq(
  $$ select * from queue._policy('bare', now()) $$,
  $$ select * from queue._policy('any', now()) $$,
  'A policy that says nothing changes nothing'
);
insert into queue.policies (
  queue, lease, timeout, max_attempts, backoff_base, backoff_cap, finished_retention,
  failed_retention
)
values ('own', '1 s', '2 s', 3, '4 s', '5 s', '6 h', '7 h');
select results_eq(
  $$ select * from queue._policy('own', now()) $$,
  $$
    values (
      false, interval '1 s', interval '2 s', 3, interval '4 s', interval '5 s', interval '6 h',
      interval '7 h'
    )
  $$,
  'What the policy says stands before the settings'
);

insert into queue.policies (queue, paused_at, paused_by, paused_until)
values ('ever', now(), 'me', null), ('ahead', now(), 'me', now() + interval '1 s'),
  ('over', now(), 'me', now());
select results_eq(
  $$
    select name, paused from unnest('{ever,ahead,over}'::text[]) as name, queue._policy(name, now())
  $$,
  $$ values ('ever', true), ('ahead', true), ('over', false) $$,
  'A queue is paused until resumed, or until the instant it was paused to'
);

select * from finish();
rollback;
