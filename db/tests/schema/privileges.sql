begin;
select no_plan();

-- Who may call what -------------------------------------------------------------------------------

create temp table matrix (role text, functions text[]);
insert into matrix
values
  ('queue_producer', '{
    enqueue, enqueue_many
  }'),
  ('queue_worker', '{
    accept_cancel, claim, complete, fail, next_due, progress, release, renew, settle,
    snooze, stand_by, stand_down, tick, tick_loop
  }'),
  ('queue_viewer', '{
    capabilities, count_jobs, failure_groups, get_job, get_policy, get_settings, health,
    job_attempts, latency, list_events, list_jobs, list_kinds, list_queues, list_workers,
    metrics, read_events, stats, throughput
  }'),
  ('queue_operator', '{
    bulk, cancel, discard, enqueue, pause, reprioritize, resume, retry, run_now, set_policy, tick,
    tick_loop
  }'),
  ('queue_admin', '{
    _cron_jobs, create_account, create_link, create_token, install_cron, list_accounts,
    list_audit, list_tokens, prune, reap, revoke_token, roll_up, rotate_events, set_account,
    set_settings, uninstall_cron
  }'),
  ('queue_web', '{
    check_password, check_session, check_token, end_session, record_refusal,
    record_sign_in_failure, redeem_link, start_session
  }');

create temp table granted as
select
  coalesce(nullif(grant_.grantee, 0)::regrole::text, 'PUBLIC') as role,
  routine.proname::text as name
from pg_proc as routine,
  aclexplode(coalesce(routine.proacl, acldefault('f', routine.proowner))) as grant_
where routine.pronamespace = 'queue'::regnamespace
  and grant_.privilege_type = 'EXECUTE'
  and grant_.grantee <> routine.proowner;
grant select on granted, matrix to public;

select is(
  (
    select array_agg(granted.name order by granted.name)
    from granted
    where granted.role = matrix.role
  ),
  matrix.functions,
  format('%s is granted its functions and no other', matrix.role)
)
from matrix;
select is_empty(
  $$ select * from granted where role not in (select role from matrix) $$,
  'Nobody else is granted any, and PUBLIC least of all'
);

select results_eq(
  $$
    select membership.member::regrole::text, membership.roleid::regrole::text
    from pg_auth_members as membership
    where membership.member::regrole::text like 'queue\_%'
      and membership.roleid::regrole::text like 'queue\_%'
    order by 1, 2
  $$,
  $$
    values
      ('queue_admin', 'queue_operator'),
      ('queue_operator', 'queue_viewer'),
      ('queue_web', 'queue_admin'),
      ('queue_web', 'queue_operator'),
      ('queue_web', 'queue_producer'),
      ('queue_web', 'queue_viewer'),
      ('queue_web', 'queue_worker')
  $$,
  'An operator is a viewer too, an admin an operator too, and the dashboard may become any of them'
);
select is(
  (
    select array_agg(routine.proname order by routine.proname)
    from pg_proc as routine
    where routine.pronamespace = 'queue'::regnamespace
      and has_function_privilege(asked.role, routine.oid, 'execute')
  ),
  (
    select array_agg(distinct name order by name)
    from matrix, unnest(functions::name[]) as name
    where matrix.role = any (asked.roles)
  ),
  format('What %s can call is what is granted to it and to those it includes', asked.role)
)
from (
  values
    ('queue_producer', '{queue_producer}'::text[]),
    ('queue_worker', '{queue_worker}'),
    ('queue_viewer', '{queue_viewer}'),
    ('queue_operator', '{queue_operator,queue_viewer}'),
    ('queue_admin', '{queue_admin,queue_operator,queue_viewer}'),
    ('queue_web', '{queue_web}')
) as asked (role, roles);

select is_empty(
  $$
    select oid::regrole from pg_roles
    where rolname like 'queue\_%'
      and (
        rolcanlogin or rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls
      )
  $$,
  'No role can log in by itself or has an attribute of power'
);
select results_eq(
  $$ select oid::regrole::text from pg_roles where rolname like 'queue\_%' and not rolinherit $$,
  $$ values ('queue_web') $$,
  'Only the dashboard inherits nothing'
);

-- Tables, sequences, the schema -------------------------------------------------------------------

select is_empty(
  $$
    select role.rolname, relation.oid::regclass::text
    from pg_roles as role, pg_class as relation
    where (role.rolname in (select matrix.role from matrix))
      and relation.relnamespace = 'queue'::regnamespace
      and case relation.relkind
        when 'S' then has_sequence_privilege(role.oid, relation.oid, 'usage, select, update')
        when 'i' then false
        when 'I' then false
        else has_table_privilege(
            role.oid, relation.oid, 'select, insert, update, delete, truncate, references, trigger'
          )
          or has_any_column_privilege(role.oid, relation.oid, 'select, insert, update, references')
      end
  $$,
  'No role has a privilege on any table, column or sequence'
);
select is_empty(
  $$
    select relation.oid::regclass::text
    from pg_class as relation, aclexplode(relation.relacl) as grant_
    where relation.relnamespace = 'queue'::regnamespace and grant_.grantee <> relation.relowner
  $$,
  'Nor has anybody else'
);
select is_empty(
  $$
    select format('%s %s', kind, name)
    from (
        select 'relation', oid::regclass::text, relowner
        from pg_class where relnamespace = 'queue'::regnamespace
        union all
        select 'function', oid::regprocedure::text, proowner
        from pg_proc where pronamespace = 'queue'::regnamespace
        union all
        select 'schema', nspname, nspowner from pg_namespace where nspname = 'queue'
      ) as owned (kind, name, owner)
    where owner <> 'queue_owner'::regrole
  $$,
  'Everything belongs to queue_owner'
);
select is_empty(
  $$
    select role from matrix where has_schema_privilege(role, 'queue', 'create')
  $$,
  'No role can put anything into the schema'
);
select ok(
  not has_schema_privilege('public', 'queue', 'usage'), 'PUBLIC cannot even look into it'
);

-- The next migration ------------------------------------------------------------------------------

set local role queue_owner;
create function queue.of_the_next_release() returns integer language sql as 'select 1';
create table queue.of_the_next_release (id integer);
reset role;
select ok(
  not has_function_privilege('public', 'queue.of_the_next_release()', 'execute'),
  'PUBLIC cannot execute what the next migration makes'
);
select ok(
  not has_table_privilege('public', 'queue.of_the_next_release', 'select'),
  'Nor read its tables'
);
drop function queue.of_the_next_release;
drop table queue.of_the_next_release;

-- As themselves -----------------------------------------------------------------------------------

select queue_tests.run_one('victim');
select queue_tests.enqueue_one('waiting', 'waiting');
create temp table before as select id, queue_tests.everything(id) as everything from queue.jobs;

create function pg_temp.try_as(role text, attack text) returns text language plpgsql as $$
begin
  perform set_config('role', try_as.role, true);
  begin
    execute try_as.attack;
    perform set_config('role', 'none', true);
    return 'allowed';
  exception
    when others then
      perform set_config('role', 'none', true);
      return sqlstate;
  end;
end;
$$;

select is(
  pg_temp.try_as(role, attack),
  '42501',
  format('%s: %s is refused', role, regexp_replace(attack, '\s+', ' ', 'g'))
)
from (
  values
    -- A29
    ('queue_producer', 'select * from queue.jobs'),
    ('queue_producer', 'update queue.jobs set priority = 9'),
    ('queue_producer', 'insert into queue.jobs (kind) values (''a'')'),
    ('queue_producer', 'select queue.claim(''w'')'),
    ('queue_producer', 'select queue.reap()'),
    ('queue_producer', 'select queue.retry(1)'),
    ('queue_producer', 'select queue.get_job(1)'),
    ('queue_producer', 'select queue.tick()'),
    ('queue_producer', 'select nextval(''queue.jobs_id_seq'')'),
    -- A31
    ('queue_worker', 'select queue.enqueue(''a'')'),
    ('queue_worker', 'select queue.enqueue_many(''[]'')'),
    ('queue_worker', 'select queue.prune()'),
    ('queue_worker', 'select queue.reap()'),
    ('queue_worker', 'select queue.cancel(1)'),
    ('queue_worker', 'select queue.set_policy(''a'')'),
    ('queue_worker', 'select payload from queue.jobs'),
    ('queue_worker', 'select queue._lock_claim(1, 1, ''complete'')'),
    ('queue_worker', 'select queue._finish(null, ''succeeded'', ''succeeded'', now())'),
    ('queue_worker', 'create table queue.mine (id integer)'),
    ('queue_worker', 'create or replace function queue._wake_space() returns integer
      language sql as ''select 1'''),
    -- A viewer looks and touches nothing.
    ('queue_viewer', 'select queue.cancel(1)'),
    ('queue_viewer', 'select queue.pause(''default'')'),
    ('queue_viewer', 'select queue.enqueue(''a'')'),
    ('queue_viewer', 'select queue.complete(1, 1)'),
    ('queue_viewer', 'select * from queue.job_events'),
    ('queue_viewer', 'select * from queue.tokens'),
    -- A32
    ('queue_operator', 'delete from queue.job_events'),
    ('queue_operator', 'update queue.job_events set actor = ''nobody'''),
    ('queue_operator', 'truncate queue.job_events'),
    ('queue_operator', 'delete from queue.audit'),
    ('queue_operator', 'alter table queue.jobs disable trigger all'),
    ('queue_operator', 'alter table queue.jobs drop constraint running_is_leased'),
    ('queue_operator', 'drop table queue.job_events'),
    ('queue_operator', 'set local session_replication_role = replica'),
    ('queue_operator', 'select queue.set_settings(''{"lease": "1 s"}'')'),
    ('queue_operator', 'select queue.prune()'),
    ('queue_operator', 'select queue.complete(1, 1)'),
    ('queue_operator', 'select queue.enqueue_many(''[]'')'),
    ('queue_operator', 'select queue.create_account(''me'', ''admin'')'),
    ('queue_admin', 'delete from queue.job_events'),
    ('queue_admin', 'update queue.settings set lease = ''1 s'''),
    ('queue_admin', 'drop function queue.claim'),
    ('queue_admin', 'grant queue_owner to queue_admin'),
    ('queue_admin', 'select queue.claim(''w'')'),
    ('queue_web', 'select queue.get_job(1)'),
    ('queue_web', 'select queue.cancel(1)'),
    ('queue_web', 'select queue.create_token(''t'', ''admin'')'),
    ('queue_web', 'select * from queue.sessions')
) as attack (role, attack);

-- A30: a worker that guesses ids.
select is(
  pg_temp.try_as(
    'queue_worker',
    format('select queue.%s', replace(call, 'ID', queue_tests.job_id('victim')::text))
  ),
  state,
  format(
    'queue_worker: %s by somebody who does not hold the claim gets %s', split_part(call, '(', 1),
    state
  )
)
from (
  values
    ('complete(ID, 0)', 'RL409'), ('complete(ID, 2)', 'RL409'), ('fail(ID, 2, ''E'')', 'RL409'),
    ('snooze(ID, 2, ''1 s'')', 'RL409'), ('release(ID, 2)', 'RL409'),
    ('accept_cancel(ID, 2)', 'RL409'),
    ('complete(999999999, 1)', 'RL404'), ('progress(ID, 2, 1)', 'allowed'),
    ('renew(''{ID}'', ''{2}'')', 'allowed'),
    ('settle(''[{"job_id": ID, "fence": 2, "outcome": "complete"}]'')', 'allowed')
) as guess (call, state);
select is_empty(
  $$ select id from before where everything <> queue_tests.everything(id) $$,
  'None of all that changed a job or wrote an event'
);

select is(
  pg_temp.try_as(role, call),
  'allowed',
  format('%s: %s works', role, regexp_replace(call, '\s+', ' ', 'g'))
)
from (
  values
    ('queue_producer', 'select queue.enqueue(''a'', idempotency_key => ''k'')'),
    (
      'queue_producer',
      'select queue.enqueue_many(''[{"kind": "a"}, {"kind": "a", "idempotency_key": "k"}]'')'
    ),
    (
      'queue_worker',
      'select queue.settle((
        select json_agg(
          json_build_object(''job_id'', job_id, ''fence'', fence, ''outcome'', ''fail'')
        )
        from queue.claim(''w'')
      ))'
    ),
    ('queue_worker', 'select queue.complete(job_id, fence) from queue.claim(''w'')'),
    ('queue_worker', 'select queue.next_due()'),
    ('queue_worker', 'select queue.stand_down()'),
    ('queue_worker', 'select queue.tick()'),
    ('queue_viewer', 'select queue.list_jobs()'),
    ('queue_viewer', 'select queue.health()'),
    ('queue_operator', 'select queue.list_jobs()'),
    ('queue_operator', 'select queue.pause(''a'')'),
    ('queue_operator', 'select queue.enqueue(''a'')'),
    ('queue_operator', 'select queue.tick()'),
    ('queue_admin', 'select queue.resume(''a'')'),
    ('queue_admin', 'select queue.reap()')
) as right_ (role, call);

-- Who was who.
select results_eq(
  $$ select distinct created_by from queue.jobs where kind = 'a' $$,
  $$ select current_setting('session_authorization') $$,
  'Within a function of the owner the job still is its session''s'
);

-- A38: nobody becomes the owner. SET ROLE asks who the session is, so the session is somebody else
-- here.
create function pg_temp.set_role_as(session_role text, role text) returns text language plpgsql
  as $$
declare
  v_answer text := 'allowed';
begin
  execute format('set local session authorization %I', session_role);
  begin
    execute format('set local role %I', role);
  exception
    when insufficient_privilege then
      v_answer := 'refused';
  end;
  reset session authorization;
  return v_answer;
end;
$$;
select is(
  (
    select array_agg(taken order by taken)
    from unnest('{
        queue_owner, queue_producer, queue_worker, queue_viewer, queue_operator, queue_admin,
        queue_web
      }'::text[]) as taken
    where pg_temp.set_role_as(session.role, taken) = 'allowed'
  ),
  session.may_take::text[],
  format('A session of %s can take on %s', session.role, session.may_take)
)
from (
  values
    ('queue_producer', '{queue_producer}'),
    ('queue_worker', '{queue_worker}'),
    ('queue_viewer', '{queue_viewer}'),
    ('queue_operator', '{queue_operator,queue_viewer}'),
    ('queue_admin', '{queue_admin,queue_operator,queue_viewer}'),
    ('queue_web', '{queue_admin,queue_operator,queue_producer,queue_viewer,queue_web,queue_worker}')
) as session (role, may_take);

-- The dashboard has nothing by itself, and all of a role while it is that role.
set local session authorization queue_web;
select throws_ok(
  $$ select queue.list_queues() $$, '42501', null, 'queue_web by itself cannot even list queues'
);
set local role queue_viewer;
select lives_ok($$ select queue.list_queues() $$, 'As a viewer it can');
select throws_ok($$ select queue.pause('a') $$, '42501', null, 'But not pause one');
set local role queue_operator;
select lives_ok($$ select queue.pause('a') $$, 'As an operator it can do that too');
reset role;
reset session authorization;

select * from finish();
rollback;
