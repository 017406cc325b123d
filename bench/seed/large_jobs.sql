-- What a list must not read: documents of a megabyte, on the newest jobs.
alter table queue.jobs alter column id restart with 1000000000;

insert into queue.jobs (created_at, available_at, queue, kind, max_attempts, payload)
select
  now() - interval '30 seconds' + large.number * interval '1 ms', now() - interval '30 seconds', 'archive',
  'archive.store', 5, jsonb_build_object('document', large.document)
from (
    select number, string_agg(md5(number::text || '-' || part::text), '') as document
    from generate_series(1, 60) as number, generate_series(1, 32000) as part
    group by number
  ) as large;
