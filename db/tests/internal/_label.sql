begin;
select no_plan();

select is(
  queue._label(status, now() + due::interval, error, now()), want,
  format('%s, due in %s, error %s', status, due, error)
)
from (
  values
    ('queued', '0', null, 'ready'), ('queued', '-1 h', null, 'ready'),
    ('queued', '0', 'E', 'ready'),
    ('queued', '1 us', null, 'scheduled'), ('queued', '1 us', 'E', 'retrying'),
    ('running', '0', 'E', 'running'), ('running', '1 h', null, 'running'),
    ('succeeded', '0', null, 'succeeded'), ('cancelled', '0', 'E', 'cancelled'),
    ('failed', '0', 'E', 'dead'), ('failed', '1 h', null, 'dead')
) as given (status, due, error, want);

select * from finish();
rollback;
