-- The roles of Rowlock: one that owns everything, and a group role for each kind of caller.
--
-- For a superuser or a login with CREATEROLE, in any database of the cluster, as often as one
-- likes: it makes what is missing. `rowlock migrate` runs it by itself where it may. The login
-- that will migrate is the one that runs this, unless a setting names another:
--   set rowlock.migrator = 'deployer';
do $roles$
declare
  v_migrator text := coalesce(nullif(current_setting('rowlock.migrator', true), ''), session_user);
  v_options_at_grant boolean := current_setting('server_version_num')::integer >= 160000;
  v_wanted record;
  v_refused text[] := '{}';
begin
  for v_wanted in
    select made.role, made.attributes, made.purpose
    from (
      values
        ('queue_owner', 'nologin', 'owns schema queue; nobody works as it'),
        ('queue_producer', 'nologin', 'may enqueue'),
        ('queue_worker', 'nologin', 'may claim jobs and answer for them'),
        ('queue_viewer', 'nologin', 'may read jobs, events and statistics'),
        ('queue_operator', 'nologin', 'viewer who may retry, cancel, pause'),
        ('queue_admin', 'nologin', 'operator who may change settings and run maintenance'),
        ('queue_web', 'nologin noinherit', 'the dashboard: takes on the role of its user')
    ) as made (role, attributes, purpose)
    where not exists (select from pg_catalog.pg_roles as known where known.rolname = made.role)
  loop
    begin
      execute format('create role %I %s', v_wanted.role, v_wanted.attributes);
      execute format('comment on role %I is %L', v_wanted.role, 'Rowlock: ' || v_wanted.purpose);
      raise notice 'role % created', v_wanted.role;
    exception
      when insufficient_privilege then
        v_refused := v_refused || format('role %s', v_wanted.role);
      when duplicate_object or unique_violation then
        null;  -- another database of the cluster was first
    end;
  end loop;

  -- From PostgreSQL 16 on a membership carries its own options; before, the member's NOINHERIT
  -- tells. queue_web may take a role on with SET ROLE and has nothing of it until then.
  for v_wanted in
    select granted.role, granted.member, granted.inherit
    from (
      values
        ('queue_viewer', 'queue_operator', true),
        ('queue_operator', 'queue_admin', true),
        ('queue_producer', 'queue_web', false),
        ('queue_worker', 'queue_web', false),
        ('queue_viewer', 'queue_web', false),
        ('queue_operator', 'queue_web', false),
        ('queue_admin', 'queue_web', false)
    ) as granted (role, member, inherit)
    where not exists (
      select
      from pg_catalog.pg_auth_members as known
      where known.roleid = to_regrole(granted.role)
        and known.member = to_regrole(granted.member)
        -- As JSON, since PostgreSQL 15 has no such columns.
        and coalesce((to_jsonb(known) ->> 'inherit_option')::boolean, granted.inherit)
          = granted.inherit
        and coalesce((to_jsonb(known) ->> 'set_option')::boolean, true)
    )
  loop
    begin
      execute format('grant %I to %I', v_wanted.role, v_wanted.member)
        || case
          when v_options_at_grant then format(' with inherit %s, set true', v_wanted.inherit::text)
          else ''
        end;
      raise notice 'role % granted to %', v_wanted.role, v_wanted.member;
    exception
      when insufficient_privilege or undefined_object then
        v_refused := v_refused
          || format('membership of %s in %s', v_wanted.member, v_wanted.role);
      when unique_violation then
        null;
    end;
  end loop;

  if to_regrole('queue_owner') is not null
    and not pg_has_role(
      v_migrator,
      'queue_owner',
      case when v_options_at_grant then 'set' else 'member' end
    )
  then
    begin
      execute format('grant queue_owner to %I', v_migrator)
        || case when v_options_at_grant then ' with inherit false, set true' else '' end;
      raise notice 'role queue_owner granted to %', v_migrator;
    exception
      when insufficient_privilege then
        v_refused := v_refused || format('membership of %s in queue_owner', v_migrator);
    end;
  end if;

  -- Not needed for any work: queue.health() then sees since when other sessions are in a transaction.
  if to_regrole('queue_owner') is not null
    and not pg_has_role('queue_owner', 'pg_read_all_stats', 'usage')
  then
    begin
      grant pg_read_all_stats to queue_owner;
      raise notice 'role pg_read_all_stats granted to queue_owner';
    exception
      when insufficient_privilege then
        null;
    end;
  end if;

  if v_refused <> '{}' then
    raise exception '% may not make what is missing: %',
      session_user, array_to_string(v_refused, ', ')
      using errcode = 'insufficient_privilege',
      hint = 'Let an administrator run what `rowlock migrate --roles` prints.';
  end if;
end;
$roles$;
