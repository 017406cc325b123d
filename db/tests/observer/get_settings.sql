begin;
select no_plan();

select bag_eq(
  $$ select * from queue.get_settings() $$,
  $$ select * from queue.set_settings('{}') $$,
  'The settings read as set_settings answers them'
);
select lives_ok($$ select queue.set_settings('{"max_attempts": 9}') $$, 'One is changed');
select is(
  (select value from queue.get_settings() where name = 'max_attempts'), '9', 'A change shows'
);
select is(
  (select array_agg(name) from queue.get_settings()),
  array[
    'lease', 'max_attempts', 'backoff_base', 'backoff_cap', 'finished_retention',
    'failed_retention',
    'events_retention', 'tick_interval', 'claim_floor'
  ],
  'They come in one order'
);

select * from finish();
rollback;
