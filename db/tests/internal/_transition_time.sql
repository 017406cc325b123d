begin;

-- Before the plan, since pgTAP keeps its results in a table.
select set_config('test.before', pg_current_xact_id_if_assigned()::text, true);
select queue._transition_time();
select set_config('test.after', pg_current_xact_id_if_assigned()::text, true);

select no_plan();

select is(current_setting('test.before'), '', 'A transaction that only read has no id');
select ok(
  queue._transition_time() between now() and clock_timestamp(),
  'The instant is the clock''s, not that of the transaction''s beginning'
);
select isnt(
  current_setting('test.after'), '',
  'Dating a transition takes the transaction id, so that no floor passes it'
);
select ok(
  queue._transition_time() < queue._transition_time(),
  'It goes on within a transaction'
);

select * from finish();
rollback;
