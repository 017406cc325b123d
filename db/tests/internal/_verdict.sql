begin;
select no_plan();

select queue_tests.run_one('held');
select queue_tests.run_one('timed', timeout => '1 min');
select queue_tests.run_one('unwanted');
select queue.cancel(queue_tests.job_id('unwanted'));
select queue_tests.enqueue_one('queued', 'queued');
select queue_tests.run_one('done');
select queue.complete(queue_tests.job_id('done'), 1);

select is(
  (
    select queue._verdict(job, asked.fence, now() + asked.later)
    from queue.jobs as job
    where job.kind = asked.kind
  ),
  asked.verdict,
  asked.rule
)
from (
  values
    ('held', 1, interval '0', 'held', 'The holder is told held'),
    ('held', 1, '1 day', 'held', 'However late, as long as the reaper has not come'),
    ('timed', 1, '0', 'held', 'Before its timeout a claim is held'),
    ('timed', 1, '2 min', 'stop', 'Past it, it is to stop'),
    ('unwanted', 1, '0', 'stop', 'Once a cancel was requested, it is to stop'),
    ('held', 0, '0', 'lost', 'An older fence is lost'),
    ('held', 2, '0', 'lost', 'So is one never given'),
    ('held', null, '0', 'lost', 'And none'),
    ('queued', 0, '0', 'lost', 'Nobody holds a queued job'),
    ('done', 1, '0', 'lost', 'Nor a finished one')
) as asked (kind, fence, later, verdict, rule);
select is(queue._verdict(null, 1, now()), 'lost', 'A job that is gone is lost');

select * from finish();
rollback;
