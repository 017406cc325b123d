-- queue.settle: running -> succeeded, queued, failed or cancelled, many at once
--
-- outcomes is an array of at most 1,000 objects {"job_id", "fence", "outcome", ...}: outcome is complete, fail, snooze,
-- release or accept_cancel, the other fields are that function's parameters. One verdict each: accepted; lost (the
-- claim went to somebody else, nothing was changed); busy (another session has the job locked: ask again); refused
-- (reason says why: mend it and ask again). One bad outcome never spoils its neighbours. Never waits. Safe to repeat.
create or replace function queue.settle(outcomes json)
returns table (job_id bigint, fence integer, verdict text, reason text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_outcomes json;
  v_ids bigint[];
  v_fences integer[];
  v_results jsonb[];
  v_places bigint[];
  v_others json[];
  v_held record;
begin
  perform queue._require_writable();
  if json_typeof(settle.outcomes) is distinct from 'array' then
    raise exception 'outcomes is %', coalesce('a JSON ' || json_typeof(settle.outcomes), 'null')
      using errcode = 'RL400', hint = 'outcomes is a JSON array of objects, one an outcome.';
  end if;
  if json_array_length(settle.outcomes) > 1000 then
    raise exception 'outcomes has % elements', json_array_length(settle.outcomes)
      using errcode = 'RL400', hint = 'A batch is at most 1000 outcomes.';
  end if;

  v_outcomes := queue._clean_json(settle.outcomes);

  -- Successes go together, the rest one by one; all go one by one where together they fail.
  begin
    select
      array_agg(item.job_id) filter (where item.outcome = 'complete'),
      array_agg(item.fence) filter (where item.outcome = 'complete'),
      array_agg(
        case when item.result is not null then queue._result(item.result) end
      ) filter (where item.outcome = 'complete'),
      array_agg(item.place) filter (where item.outcome is distinct from 'complete')
    into v_ids, v_fences, v_results, v_places
    from rows from (
      json_to_recordset(v_outcomes) as (job_id bigint, fence integer, outcome text, result json)
    ) with ordinality as item (job_id, fence, outcome, result, place);

    if v_places is not null then
      v_others := array(
        select item.value
        from json_array_elements(v_outcomes) with ordinality as item (value, place)
        where item.place = any (v_places)
      );
    end if;

    if v_ids is not null then
      select held.* into v_held from queue._lock_claims(v_ids, v_fences) as held;
      perform queue._complete_many(v_held.ctids, v_held.workers, v_results);
    end if;
  exception
    when serialization_failure or deadlock_detected then
      raise;
    when others then
      v_ids := null;
      v_fences := null;
      v_others := array(select json_array_elements(v_outcomes));
  end;

  if v_ids is not null then
    return query
      select
        asked.id,
        asked.fence,
        case
          when asked.ctid is not null then 'accepted'
          when job.settled_fence = asked.fence and job.settled_as = 'complete' then 'accepted'
          when job.status = 'running' and job.fence = asked.fence then 'busy'
          else 'lost'
        end,
        null::text
      from unnest(v_ids, v_fences, v_held.ctids) as asked (id, fence, ctid)
        left join lateral (
          select other.status, other.fence, other.settled_fence, other.settled_as
          from queue.jobs as other
          where other.id = asked.id
            and asked.ctid is null
          offset 0
        ) as job on true;
  end if;

  return query
    select answer.*
    from unnest(v_others) as other (outcome)
      cross join lateral queue._settle_one(other.outcome) as answer;
end;
$$;

comment on function queue.settle is 'Settles many claims in one round trip, each by itself in effect';
grant execute on function queue.settle to queue_worker;
