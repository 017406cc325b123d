-- queue.capabilities: what the caller may do here, for clients that show it
--
-- role is the strongest of viewer, operator and admin that the current role has; read_only on a standby; counters_age
-- is how old the counters are at most, zero when every event is counted.
create or replace function queue.capabilities()
returns table (
  role text,
  read_only boolean,
  version text,
  server_version text,
  counters_age interval
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_role text := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
  return query
    select
      case
        when pg_has_role(v_role, 'queue_admin', 'usage') then 'admin'
        when pg_has_role(v_role, 'queue_operator', 'usage') then 'operator'
        else 'viewer'
      end,
      current_setting('transaction_read_only')::boolean,
      (
        select deployment.version
        from queue.deployments as deployment
        order by deployment.deployed_at desc
        limit 1
      ),
      current_setting('server_version'),
      case
        when queue._has_uncounted_events()
          then clock_timestamp() - coalesce(step.finished_at, step.due_at)
        else interval '0'
      end
    from queue.steps as step
    where step.step = 'roll_up';
end;
$$;

comment on function queue.capabilities is 'What the caller may do here';
grant execute on function queue.capabilities to queue_viewer;
