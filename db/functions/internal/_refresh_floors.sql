-- queue._refresh_floors: keeps this session's floors, below which no claimable job can exist
--
-- While anybody holds an old snapshot, the dead index entries of claimed jobs cannot be removed and every claim
-- would walk them. A floor steps over them, and is exact:
--   1. Whoever makes a job claimable takes its transaction id first, reads the clock second and dates the
--      job no earlier (_transition_time).
--   2. A tick here does the reverse: clock first, transaction id second. Once every transaction older than the tick's
--      has ended, all that they wrote is visible, and all that others write is dated after the tick.
--      So nothing new can appear below the tick's clock: it is safe, at once where nobody older writes.
--   3. A session that already has a transaction id does not tick: its own jobs could be dated before.
-- Floors are per queue and priority, microseconds since 1970, 0 for none yet. Once a minute they are sought
-- from the start again, and on a clock that stepped back they are forgotten.
--
-- rowlock.floors: {"next", "recheck", "at": microseconds, "tick": {"xid", "at"}, "safe": microseconds,
--                  "queues": {name: {"at": microseconds, "floors": bigint[] as text}}}
create or replace function queue._refresh_floors(p_queues text[])
returns jsonb
language plpgsql
as $$
declare
  v_state jsonb := nullif(current_setting('rowlock.floors', true), '')::jsonb;
  v_now bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
  v_recheck boolean;
  v_tick_at bigint;
  v_queue text;
  v_floors bigint[];
begin
  if v_now < (v_state ->> 'at')::bigint then
    v_state := null;
  end if;

  if v_now < (v_state ->> 'next')::bigint
    and v_state -> 'queues' ?& p_queues
    or pg_current_xact_id_if_assigned() is not null
  then
    return v_state -> 'queues';
  end if;

  if v_state is null then
    v_state := jsonb_build_object('queues', jsonb_build_object(), 'recheck', v_now + 60000000);
  end if;

  -- Every writer older than the last tick has ended: its clock is safe, and the next tick is due.
  if not v_state ? 'tick'
    or (v_state #>> '{tick,xid}')::xid8 <= pg_snapshot_xmin(pg_current_snapshot())
  then
    if v_state ? 'tick' then
      v_state := v_state || jsonb_build_object('safe', v_state #> '{tick,at}');
    end if;
    v_tick_at := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
    v_state := v_state || jsonb_build_object(
      'tick', jsonb_build_object('xid', pg_current_xact_id()::text, 'at', v_tick_at)
    );
    -- At once, so that a new session walks the dead entries once and not claim after claim.
    if pg_current_xact_id() <= pg_snapshot_xmin(pg_current_snapshot()) then
      v_state := v_state || jsonb_build_object('safe', v_tick_at);
    end if;
  end if;

  v_recheck := v_now >= (v_state ->> 'recheck')::bigint;

  if v_state ? 'safe' then
    -- The recheck covers all queues at once: those not named here start anew when they are.
    if v_recheck then
      v_state := jsonb_set(v_state, '{queues}', '{}')
        || jsonb_build_object('recheck', v_now + 60000000);
    end if;

    foreach v_queue in array p_queues loop
      v_floors := queue._raise_floors(
        v_queue,
        coalesce(
          (v_state #>> array['queues', v_queue, 'floors'])::bigint[],
          array_fill(0::bigint, array[10])
        ),
        timestamptz 'epoch' + (v_state ->> 'safe')::bigint * interval '1 microsecond'
      );
      v_state := jsonb_set(
        v_state,
        array['queues', v_queue],
        jsonb_build_object('at', v_now, 'floors', v_floors::text)
      );
    end loop;

    -- At most 64 queues: those longest unused are forgotten.
    if (select count(*) from jsonb_object_keys(v_state -> 'queues')) > 64 then
      v_state := jsonb_set(
        v_state,
        '{queues}',
        (
          select jsonb_object_agg(kept.key, kept.value)
          from (
            select entry.key, entry.value
            from jsonb_each(v_state -> 'queues') as entry
            order by (entry.value ->> 'at')::bigint desc
            limit 64
          ) as kept
        )
      );
    end if;
  end if;

  v_state := v_state || jsonb_build_object('at', v_now, 'next', v_now + 250000);
  perform set_config('rowlock.floors', v_state::text, false);
  return v_state -> 'queues';
end;
$$;

comment on function queue._refresh_floors is 'This session''s floors per queue, raised when due';
