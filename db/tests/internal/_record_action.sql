begin;
select no_plan();

select queue._record_action('pause', 'q', 'why', '{"until": null, "a": 1}');
set local rowlock.actor = 'alice';
select queue._record_action('resume', null, repeat('x', 2000), '{"until": null}');
select results_eq(
  $$
    select
      action, queue, actor = session_user, session_user_name = session_user, length(reason), detail,
      at between now() and clock_timestamp()
    from queue.audit order by id
  $$,
  $$
    values ('pause', 'q', true, true, 3, '{"a": 1}'::jsonb, true),
      ('resume', null, false, true, 1000, null, true)
  $$,
  'What was done, to which queue, by whom, signed in as whom, why (cut), what; nulls leave no trace'
);
select is(
  (select actor from queue.audit where action = 'resume'), 'alice', 'The actor is the one claimed'
);

select * from finish();
rollback;
