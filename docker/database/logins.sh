#!/bin/sh
# Makes the roles of Rowlock and one login for each kind of program. The image runs it once, when
# the volume is empty. The migrating login may not create roles; nothing runs as superuser.
#
# POSTGRES_USER and POSTGRES_DB as in the image; ROWLOCK_MIGRATOR_PASSWORD, ROWLOCK_WORKER_PASSWORD,
# ROWLOCK_PRODUCER_PASSWORD and ROWLOCK_WEB_PASSWORD. ROLES_SQL names db/roles.sql elsewhere.
set -eu

{
  cat << 'SQL'
\getenv database POSTGRES_DB
\getenv migrator ROWLOCK_MIGRATOR_PASSWORD
\getenv worker ROWLOCK_WORKER_PASSWORD
\getenv producer ROWLOCK_PRODUCER_PASSWORD
\getenv web ROWLOCK_WEB_PASSWORD

select format('create role %I login', name)
from unnest('{rowlock_migrator,rowlock_worker,rowlock_producer,rowlock_web}'::text[]) as name
where to_regrole(name) is null
\gexec
alter role rowlock_migrator password :'migrator';
alter role rowlock_worker password :'worker';
alter role rowlock_producer password :'producer';
alter role rowlock_web password :'web';
alter role rowlock_producer set idle_in_transaction_session_timeout = '1 min';
grant create on database :"database" to rowlock_migrator;

select 'create extension if not exists pg_cron'
where current_setting('cron.database_name', true) = current_database()
\gexec

set rowlock.migrator = 'rowlock_migrator';
SQL
  cat "${ROLES_SQL:-/usr/share/rowlock/roles.sql}"
  cat << 'SQL'
grant queue_worker to rowlock_worker;
grant queue_producer to rowlock_producer;
grant queue_web to rowlock_web;
SQL
} | psql -Xq -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -f -
