-- queue._bucket_bounds: lower bounds, in seconds, of buckets 1 to 17 of the histograms of waiting and running
create or replace function queue._bucket_bounds()
returns double precision[]
language sql
immutable
as $$
  select array[
    0, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600
  ]::double precision[];
$$;

comment on function queue._bucket_bounds is 'Lower bounds of the histogram buckets, in seconds';
