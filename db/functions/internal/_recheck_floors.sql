-- queue._recheck_floors: the minute's recheck, for a session that polls and does not claim
--
-- Seeks these queues' floors from the start, up to the instant that a claim's tick found safe, and forgets the others'.
-- Needs no tick, so no transaction id. Without it such a session would trust old floors for ever, or walk the dead
-- entries of an old snapshot at every poll.
create or replace function queue._recheck_floors(p_queues text[])
returns void
language plpgsql
as $$
declare
  v_state jsonb := nullif(current_setting('rowlock.floors', true), '')::jsonb;
  v_now bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
begin
  if v_now >= (v_state ->> 'recheck')::bigint and v_state ? 'safe' then
    v_state := v_state || jsonb_build_object(
      'recheck', v_now + 60000000,
      'queues', (
        select jsonb_object_agg(
          named.queue,
          jsonb_build_object(
            'at', v_now,
            'floors', queue._raise_floors(
              named.queue,
              array_fill(0::bigint, array[10]),
              timestamptz 'epoch' + (v_state ->> 'safe')::bigint * interval '1 microsecond'
            )::text
          )
        )
        from unnest(p_queues) as named (queue)
      )
    );
    perform set_config('rowlock.floors', v_state::text, false);
  end if;
end;
$$;

comment on function queue._recheck_floors is 'The minute''s recheck of floors, for a session that only polls';
