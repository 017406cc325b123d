-- queue._scan_ids: up to 10,000 of the jobs that a filter names, by id, from after one of them; backwards from before
create or replace function queue._scan_ids(p_filter jsonb, p_from queue.jobs, p_backwards boolean)
returns setof queue.jobs
language sql
stable
as $$
  with named as materialized (
    select
      array(
        select asked::numeric::bigint
        from jsonb_array_elements_text(p_filter -> 'ids') as asked
        where asked::numeric between 1 and 9223372036854775807
      ) as ids
  )
  (
    select job.*
    from queue.jobs as job
    where not p_backwards
      and job.id = any ((select named.ids from named)::bigint[])
      and job.id > coalesce((p_from).id, 0)
    order by job.id
    limit 10000
  )
  union all
  (
    select job.*
    from queue.jobs as job
    where p_backwards
      and job.id = any ((select named.ids from named)::bigint[])
      and job.id < (p_from).id
    order by job.id desc
    limit 10000
  );
$$;

comment on function queue._scan_ids is 'Up to 10,000 of the jobs named, from after, or before, one of them';
