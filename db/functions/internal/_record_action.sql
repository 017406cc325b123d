-- queue._record_action: an operator's action that concerns no single job, into the audit
create or replace function queue._record_action(
  p_action text,
  p_queue text,
  p_reason text,
  p_detail jsonb default null
)
returns void
language sql
as $$
  insert into queue.audit (action, queue, actor, reason, detail)
  select
    p_action, p_queue, actor.name, queue._cut(p_reason, 1000), nullif(jsonb_strip_nulls(p_detail), '{}')
  from queue._actor() as actor;
$$;

comment on function queue._record_action is 'Writes one row of the audit';
