-- queue._adopt_cluster: a dump came to another cluster, where transaction ids start anew
--
-- The events that came along carry ids of the old cluster. Those that this cluster has not reached, or that predate the
-- restore, say nothing here: read_events tells them apart by event id, and answers old cursors with RL409.
create or replace function queue._adopt_cluster()
returns boolean
language plpgsql
as $$
declare
  v_identifier bigint := (pg_control_system()).system_identifier;
  v_is_new boolean;
begin
  update queue.settings as settings
  set system_identifier = v_identifier,
      adopted_event_id = coalesce((select max(event.id) from queue.job_events as event), 0)
  where settings.system_identifier <> v_identifier;
  v_is_new := found;

  if v_is_new then
    perform queue._record_action('adopt_cluster', null, null);
  end if;

  return v_is_new;
end;
$$;

comment on function queue._adopt_cluster is 'Notices that a dump was restored into another cluster';
