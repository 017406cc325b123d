-- queue._check_same_job: RL422 when an idempotency key is used again for something else
create or replace function queue._check_same_job(p_job queue.jobs, p_kind text, p_payload jsonb)
returns void
language plpgsql
immutable
as $$
begin
  if p_job.kind <> p_kind or p_job.payload <> p_payload then
    raise exception 'idempotency_key % belongs to job %, which has another %',
      quote_literal(p_job.idempotency_key),
      p_job.id,
      case when p_job.kind <> p_kind then 'kind' else 'payload' end
      using errcode = 'RL422',
        hint = 'One key stands for one piece of work: use another key, or send the same kind and payload.';
  end if;
end;
$$;

comment on function queue._check_same_job is 'RL422 unless a known key asks for the same work again';
