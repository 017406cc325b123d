begin;
select no_plan();

select is(
  (select schedule || ': ' || command from queue._cron_jobs(version) where job = 'rowlock tick'),
  want, rule
)
from (
  values
    (
      '1.4', '* * * * *: call queue.tick_loop(58)',
      'Before 1.5 pg_cron knows minutes only: a procedure fills each'
    ),
    ('1.0', '* * * * *: call queue.tick_loop(58)', 'The first version, too'),
    ('1.4-1', '* * * * *: call queue.tick_loop(58)', 'Debian writes versions like that'),
    ('1.5', '5 seconds: call queue.tick_loop(4)', 'From 1.5 on it knows seconds'),
    ('1.6', '5 seconds: call queue.tick_loop(4)', 'and later'),
    ('1.10', '5 seconds: call queue.tick_loop(4)', 'Versions are numbers: 1.10 comes after 1.9'),
    ('2.0', '5 seconds: call queue.tick_loop(4)', 'and 2.0 after 1.10')
) as known (version, want, rule);
select results_eq(
  $$ select job, schedule from queue._cron_jobs('1.6') $$,
  $$ values ('rowlock tick', '5 seconds'), ('rowlock clean-up', '17 3 * * *') $$,
  'It ticks, and clears its own log once a day'
);

select * from finish();
rollback;
