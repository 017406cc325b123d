-- queue._label: the word people use for where a job stands; never a state
--
-- ready: queued and due. retrying: queued after a failure, not due yet. scheduled: queued, not due yet. dead: failed.
-- Else the status.
create or replace function queue._label(
  p_status text,
  p_available_at timestamptz,
  p_error_type text,
  p_now timestamptz
)
returns text
language sql
immutable
as $$
  select case
    when p_status = 'failed' then 'dead'
    when p_status <> 'queued' then p_status
    when p_available_at <= p_now then 'ready'
    when p_error_type is not null then 'retrying'
    else 'scheduled'
  end;
$$;

comment on function queue._label is 'ready, retrying, scheduled, dead or the status';
