#!/bin/sh
# A worker with nothing but psql and a shell: worker.sh [QUEUE [--burst]]
#
# Claims one job at a time, runs handlers/KIND with the payload on its standard input, and renews
# the lease meanwhile. What the handler prints, JSON, is the result; a handler that exits with
# another status than 0 has failed, and what it wrote to standard error is the message. With
# --burst it ends when nothing is due; else it ends at SIGTERM, and gives back the job in hand.
#
# The database: DATABASE_URL or libpq's variables. The login needs the role queue_worker.
# HANDLERS names another folder of handlers.
set -eu

queue=${1:-default}
mode=${2:-}
handlers=${HANDLERS:-$(cd "$(dirname "$0")" && pwd)/handlers}
worker="$(uname -n)-$$-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')"
work=$(mktemp -d)
stopping=
handler=
trap 'rm -rf "$work"' EXIT
trap 'stopping=yes; [ -z "$handler" ] || kill "$handler" 2> /dev/null || :' TERM INT

# SQL from standard input; what follows are -v name=value, which SQL quotes as :'name'.
sql() { psql -XAtq -F '	' -v ON_ERROR_STOP=1 "$@" -d "${DATABASE_URL-}" -f -; }

claim() {
  sql -v worker="$worker" -v queue="$queue" << 'SQL'
select job_id, fence, kind, attempt, ceil(extract(epoch from lease) / 3), payload
from queue.claim(:'worker', array[:'queue']);
SQL
}

# Runs beside the handler, and ends it when the answer is not `held`.
renew() {
  trap 'kill "$!" 2> /dev/null; exit' TERM
  while :; do
    sleep "$every" &
    wait "$!"
    verdict=$(sql -v job="$job" -v fence="$fence" << 'SQL'
select verdict from queue.renew(array[:job], array[:fence]);
SQL
    ) || continue # the server may be back in time
    [ "$verdict" = held ] && continue
    echo "$verdict" > "$work/verdict"
    kill "$handler"
    return
  done
}

answer() { # VERB, the call's further arguments in SQL, further -v
  verb=$1 arguments=$2
  shift 2
  echo "$worker: job $job ($kind, attempt $attempt): $verb" >&2
  sql -v job="$job" -v fence="$fence" "$@" > /dev/null << SQL
select from queue.$verb(:job, :fence $arguments);
SQL
}

run() {
  if [ ! -x "$handlers/$kind" ]; then
    answer snooze ", '10 seconds', 'this worker has no handler for the kind'"
    return
  fi
  : > "$work/verdict"
  JOB=$job FENCE=$fence ATTEMPT=$attempt \
    "$handlers/$kind" < "$work/payload" > "$work/out" 2> "$work/err" &
  handler=$!
  renew &
  renewer=$!
  status=0
  wait "$handler" || status=$?
  # A signal to this shell cuts `wait` short: what the handler makes of its own comes now.
  [ -z "$stopping" ] || { status=0; wait "$handler" || status=$?; }
  handler=
  kill "$renewer" 2> /dev/null || :

  case $(cat "$work/verdict")/$status/$stopping in
    lost/*) echo "$worker: job $job was taken away" >&2 ;;
    stop/*) answer accept_cancel ", 'stopped on request'" ;;
    */0/*)
      answer complete ", :'result'" -v result="$(cat "$work/out")" \
        || answer fail ", 'ResultInvalid', 'the handler did not print JSON', fatal => true"
      ;;
    */143/yes) answer release ", 'the worker shuts down'" ;;
    *) answer fail ", 'ExitStatus$status', :'message'" -v message="$(cat "$work/err")" ;;
  esac
}

while [ -z "$stopping" ]; do
  claim > "$work/claim"
  if IFS='	' read -r job fence kind attempt every payload < "$work/claim"; then
    printf '%s' "$payload" > "$work/payload"
    # An answer may be refused with RL409: the claim went to another worker, nothing was changed.
    run || :
  elif [ "$mode" = --burst ]; then
    break
  else
    # Somebody must take away the leases of workers that died: every worker ticks.
    echo 'select from queue.tick();' | sql > /dev/null
    sleep 1
  fi
done
