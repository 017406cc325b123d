begin;
select no_plan();

select queue_tests.run_one('k');
select is(
  (
    select bool_and(queue._event_matches(item, filter::jsonb))
    from queue.job_events as item where item.kind = 'k' and item.event = 'claimed'
  ),
  want, rule
)
from (
  values
    ('{}', true, 'An empty filter matches everything'),
    (
      '{"event": "claimed", "queue": "k", "kind": "k", "worker": "tester"}', true,
      'All that is named must match'
    ),
    ('{"event": "enqueued"}', false, 'the event'), ('{"queue": "K"}', false, 'the queue'),
    ('{"kind": "l"}', false, 'the kind'), ('{"worker": "test"}', false, 'the worker'),
    ('{"actor": "nobody"}', false, 'and who acted'),
    ('{"event": "claimed", "kind": "l"}', false, 'One that does not is enough'),
    ('{"worker": null}', true, 'Null asks for nothing')
) as given (filter, want, rule);
select is(
  (
    select bool_or(queue._event_matches(item, '{"worker": "tester"}'))
    from queue.job_events as item where item.kind = 'k' and item.event = 'enqueued'
  ),
  null, 'What an event does not have matches nothing'
);

select * from finish();
rollback;
