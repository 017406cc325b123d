-- A savepoint that writes takes a transaction id: events are to carry plausible ones, five jobs to each.
do $$
begin
  create temporary table burnt (one integer);
  for number in 1 .. current_setting('seed.jobs')::integer / 5 + 1 loop
    begin
      insert into burnt values (1);
    exception
      when raise_exception then null;
    end;
  end loop;
  drop table burnt;
end;
$$;
