begin;
select no_plan();

select is(queue._wanted_status(filter), want, format('%s means %s', filter, coalesce(want, 'any')))
from (
  values
    (jsonb '{}', null), ('{"queue": "q"}', null), ('{"status": "failed"}', 'failed'),
    ('{"label": "dead"}', 'failed'),
    ('{"label": "ready"}', 'queued'), ('{"label": "scheduled"}', 'queued'),
    ('{"label": "retrying"}', 'queued'),
    ('{"label": "running"}', 'running'), ('{"label": "succeeded"}', 'succeeded'),
    ('{"label": "cancelled"}', 'cancelled')
) as given (filter, want);

select * from finish();
rollback;
