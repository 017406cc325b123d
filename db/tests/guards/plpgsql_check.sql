-- requires: plpgsql_check
begin;
select no_plan();

-- They name schema cron, which is there only in the database that pg_cron watches.
create temp table needs_cron (name text);
insert into needs_cron values ('install_cron'), ('uninstall_cron');

select is(
  (
    select string_agg(found.line, E'\n')
    from plpgsql_check_function(
      routine.oid, fatal_errors => false, extra_warnings => true, security_warnings => true,
      performance_warnings => false
    ) as found (line)
  ),
  null,
  format('plpgsql_check finds nothing in %s', routine.oid::regprocedure)
)
from pg_proc as routine
  join pg_language as language on language.oid = routine.prolang
where routine.pronamespace = 'queue'::regnamespace
  and language.lanname = 'plpgsql'
  and (to_regnamespace('cron') is not null or routine.proname not in (select name from needs_cron))
order by routine.proname;

select * from finish();
rollback;
