-- queue._transition_time: the instant of a transition
--
-- Takes the transaction id first and reads the clock second. Whatever makes a job claimable dates it
-- at this instant or later; claims rely on that order to know below which instant no job can
-- still appear (_refresh_floors).
create or replace function queue._transition_time()
returns timestamptz
language plpgsql
as $$
begin
  perform queue._require_writable();
  perform pg_current_xact_id();
  return clock_timestamp();
end;
$$;

comment on function queue._transition_time is 'Transaction id first, clock second';
