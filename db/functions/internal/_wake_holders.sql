-- queue._wake_holders: which sessions hold wake locks as idle workers do, exclusively
create or replace function queue._wake_holders()
returns table (bucket integer, pid integer)
language sql
stable
as $$
  select lock.objid::integer, lock.pid
  from pg_locks as lock
  where lock.locktype = 'advisory'
    and lock.database = (select oid from pg_database where datname = current_database())
    and lock.classid = queue._wake_space()::oid
    and lock.objsubid = 2
    and lock.mode = 'ExclusiveLock'
    and lock.granted;
$$;

comment on function queue._wake_holders is 'Sessions that hold wake locks exclusively';
