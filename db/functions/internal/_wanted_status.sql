-- queue._wanted_status: the status of the jobs that a filter wants, by its status or its label; null when it names
-- neither
create or replace function queue._wanted_status(p_filter jsonb)
returns text
language sql
immutable
as $$
  select coalesce(
    p_filter ->> 'status',
    case
      when p_filter ->> 'label' = 'dead' then 'failed'
      when p_filter ->> 'label' in ('ready', 'scheduled', 'retrying') then 'queued'
      else p_filter ->> 'label'
    end
  );
$$;

comment on function queue._wanted_status is 'The status of the jobs that a filter wants';
