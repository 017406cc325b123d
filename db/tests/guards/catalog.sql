begin;
select no_plan();

create temp view routine as
select
  proc.oid, proc.oid::regprocedure::text as signature, proc.proname::text as name, proc.prosecdef,
  proc.proconfig, proc.proowner, proc.prosrc, proc.proacl, language.lanname::text as language,
  proc.proname ~ '^_' as is_helper
from pg_proc as proc
  join pg_language as language on language.oid = proc.prolang
where proc.pronamespace = 'queue'::regnamespace;

-- pg_cron runs these as a login, and COMMIT is refused in a function of somebody else's.
create temp table runs_as_caller (name text);
insert into runs_as_caller values ('install_cron'), ('uninstall_cron'), ('tick_loop');

-- What install_cron, as its caller, asks for.
create temp table granted_helper (name text);
insert into granted_helper values ('_cron_jobs');

select cmp_ok((select count(*) from routine), '>', 60::bigint, 'There is something to check');

select is_empty(
  $$
    select signature from routine
    where not is_helper and not prosecdef and name not in (select name from runs_as_caller)
  $$,
  'Every public function runs as its owner, except those that pg_cron runs'
);
select is_empty(
  $$
    select signature from routine
    where prosecdef and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)
  $$,
  'Every SECURITY DEFINER function pins its search_path, pg_temp last'
);
select is_empty(
  $$ select signature from routine where prosecdef and is_helper $$,
  'No helper is SECURITY DEFINER: it runs inside a function that is'
);
select is_empty(
  $$
    select signature from routine
    where is_helper and name not in (select name from granted_helper)
      and exists (
        select from aclexplode(coalesce(proacl, acldefault('f', proowner))) as grant_
        where grant_.grantee <> proowner
      )
  $$,
  'No helper is granted to anybody'
);
select is_empty(
  $$
    select signature from routine
    where not is_helper
      and not exists (select from aclexplode(proacl) as grant_ where grant_.grantee <> proowner)
  $$,
  'Every public function is granted to some role'
);
select is_empty(
  $$ select signature from routine where coalesce(obj_description(oid, 'pg_proc'), '') = '' $$,
  'Every function has a comment'
);
select is_empty(
  $$ select name from routine group by name having count(*) > 1 $$,
  'No function is overloaded'
);
select is_empty(
  $$ select signature from routine where language not in ('plpgsql', 'sql') $$,
  'Functions are written in PL/pgSQL or SQL'
);
select is_empty(
  $$
    select signature from routine
    where prosecdef
      and prosrc ~* '\mexecute\s+(format|''|v_)'
      and name not in ('rotate_events', 'bulk')
  $$,
  'No SECURITY DEFINER function builds SQL from text, except where partitions are made'
);
select is_empty(
  $$
    select signature from routine
    where prosrc ~ '\mnow\(\)|current_timestamp|transaction_timestamp|statement_timestamp'
      and name <> '_cron_jobs'
  $$,
  'The time is the clock''s, not that of the transaction''s beginning'
);
select is_empty(
  $$
    select signature
    from routine
    where prosrc ~* '\mset\s+(local\s+)?search_path|session_replication_role'
  $$,
  'No body changes what names mean'
);
select is_empty(
  $$
    select signature from routine
    where prosrc ~ '\mraise exception\M' and language <> 'plpgsql'
  $$,
  'Only PL/pgSQL raises'
);
select is_empty(
  $$
    select relation.oid::regclass::text
    from pg_class as relation
    where relation.relnamespace = 'queue'::regnamespace
      and relation.relkind in ('r', 'p')
      and not relation.relispartition
      and relation.relname !~ 'yoyo'
      and coalesce(obj_description(relation.oid, 'pg_class'), '') = ''
  $$,
  'Every table has a comment'
);
select is_empty(
  $$ select tgrelid::regclass::text from pg_trigger join pg_class on pg_class.oid = tgrelid
     where relnamespace = 'queue'::regnamespace and not tgisinternal $$,
  'Nothing happens by trigger'
);
select is_empty(
  $$
    select extension.extname::text
    from pg_depend as dependency
      join pg_extension as extension on extension.oid = dependency.refobjid
      join pg_proc as proc on proc.oid = dependency.objid
    where dependency.classid = 'pg_proc'::regclass
      and dependency.refclassid = 'pg_extension'::regclass
      and proc.pronamespace = 'queue'::regnamespace
  $$,
  'The schema needs no extension'
);

select * from finish();
rollback;
