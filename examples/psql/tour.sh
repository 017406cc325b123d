#!/bin/sh
# The whole life of a job, with nothing but psql and a shell.
#
#   DATABASE_URL=postgresql://... examples/psql/tour.sh
#
# Each call runs as the one role that it needs; a login that is a member of them all (or a
# superuser) can take the tour. It uses a queue of its own and leaves finished jobs behind.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
queue=psql-tour-$$

say() { printf '\n# %s\n' "$*"; }

# as ROLE: SQL from standard input, shown and run. :'queue', :job and :fence are set.
as() {
  cat > "$script"
  sed "s/^/${1#queue_}> /" "$script" >&3
  psql -Xq -P footer=off -P null=- -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -v queue="$queue" \
    -v job="${job:-0}" -v fence="${fence:-0}" -d "${DATABASE_URL-}" \
    -c "set role $1" -f "$script"
}

# The same for one value, which goes to $got.
ask() {
  got=$(as "$1" | sed -n '3s/ //gp')
  echo " = $got"
}

exec 3>&1
script=$(mktemp)
trap 'rm -f "$script"' EXIT

say 'A job is made by a call, in the transaction of the caller.'
ask queue_producer << 'SQL'
select job_id
from queue.enqueue('text.count', '{"text": "to be or not to be"}', queue => :'queue', priority => 7);
SQL
job=$got

say 'Rolled back, it never was. Enqueued under a key, it is made once.'
as queue_producer << 'SQL'
begin;
select * from queue.enqueue('text.count', '{"text": "never mind"}', queue => :'queue');
rollback;
select created from queue.enqueue('text.count', '{"text": "once"}', queue => :'queue',
  idempotency_key => 'once', delay => '1 hour');
select created from queue.enqueue('text.count', '{"text": "once"}', queue => :'queue',
  idempotency_key => 'once', delay => '1 hour');
SQL

say 'A worker claims the most urgent job that is due, under a new fence and a lease.'
ask queue_worker << 'SQL'
select fence from queue.claim('tour-worker', array[:'queue']);
SQL
fence=$got

say 'While it works it tells how far it is, and keeps the lease alive.'
as queue_worker << 'SQL'
select queue.progress(:job, :fence, 50, 'counting');
select * from queue.renew(array[:job], array[:fence]);
SQL

say 'Done. Who says so carries the fence, so that a worker which lost its claim cannot.'
as queue_worker << 'SQL'
select * from queue.complete(:job, :fence, '{"words": 6}');
SQL

say 'A failure: the job is queued again, later each time, while it has attempts left.'
ask queue_producer << 'SQL'
select job_id
from queue.enqueue('text.count', '{"text": "three more words"}', queue => :'queue',
  max_attempts => 2, lease => '1 second');
SQL
job=$got
ask queue_worker << 'SQL'
select fence from queue.claim('tour-worker', array[:'queue']);
SQL
fence=$got
as queue_worker << 'SQL'
select * from queue.fail(:job, :fence, 'OutOfInk', 'no ink left', retry_in => '1 second');
SQL

say 'The lease of a worker that died runs out, and the job is taken from it.'
as queue_operator << 'SQL'
select * from queue.run_now(:job, 'no need to wait for the second attempt');
SQL
ask queue_worker << 'SQL'
select fence from queue.claim('tour-worker-that-dies', array[:'queue']);
SQL
fence=$got
sleep 1.1
as queue_admin << 'SQL'
select * from queue.reap();
SQL

say 'Should it wake up after all, what it says is refused: SQLSTATE RL409.'
refused=$(as queue_worker 2>&1 << 'SQL' || :
select * from queue.complete(:job, :fence, '{"words": 0}');
SQL
)
echo "$refused" | grep -v LOCATION
echo "$refused" | grep -q 'ERROR:  RL409'

say 'Two attempts were all it had: it is dead, until an operator grants another.'
as queue_viewer << 'SQL'
select id, status, label, attempt, max_attempts, error_type from queue.get_job(:job);
SQL
as queue_operator << 'SQL'
select * from queue.retry(:job, extra_attempts => 1, reason => 'the printer has ink again');
SQL

say 'A job that nobody wants any more is cancelled: at once while it waits ...'
ask queue_producer << 'SQL'
select job_id from queue.enqueue('text.count', queue => :'queue', priority => 9);
SQL
job=$got
as queue_operator << 'SQL'
select status, cancel_requested from queue.cancel(:job, 'not needed');
select status, attempt from queue.retry(:job, reason => 'needed after all');
SQL

say '... and by asking its worker once it runs, who learns of it when it renews.'
ask queue_worker << 'SQL'
select fence from queue.claim('tour-worker', array[:'queue']);
SQL
fence=$got
as queue_operator << 'SQL'
select status, cancel_requested from queue.cancel(:job, 'and again not');
SQL
as queue_worker << 'SQL'
select verdict from queue.renew(array[:job], array[:fence]);
select status from queue.accept_cancel(:job, :fence);
SQL

say 'worker.sh is a worker in a shell. It does what is left, and one job that never succeeds.'
as queue_producer << 'SQL'
select ordinal, created from queue.enqueue_many(jsonb_build_array(
  jsonb_build_object('kind', 'text.always-fails', 'queue', :'queue', 'max_attempts', 1),
  jsonb_build_object('kind', 'text.count', 'queue', :'queue', 'payload', '{"text": "a b c"}'::jsonb)
));
SQL
"$here/worker.sh" "$queue" --burst

say 'Everything that happened is in the history, written with each transition.'
as queue_viewer << 'SQL'
select event, from_status, to_status, attempt, fence, worker, detail ->> 'reason' as reason
from queue.list_events(:job);
SQL
as queue_viewer << 'SQL'
select id, kind, label, attempt, result, error_type
from queue.list_jobs(jsonb_build_object('queue', :'queue')) as listed
  cross join lateral (select result from queue.get_job(listed.id)) as job
order by id;
SQL
