-- queue._check_claims: RL400 unless two arrays name at most 1,000 claims, one fence a job
create or replace function queue._check_claims(p_job_ids bigint[], p_fences integer[])
returns void
language plpgsql
immutable
as $$
begin
  if cardinality(p_job_ids) is distinct from cardinality(p_fences)
    or coalesce(array_ndims(p_job_ids), 1) <> 1
    or coalesce(array_ndims(p_fences), 1) <> 1
    or p_job_ids is null
    or array_position(p_job_ids, null) is not null
    or array_position(p_fences, null) is not null
  then
    raise exception 'job_ids and fences do not pair up'
      using errcode = 'RL400', hint = 'Give two arrays of one length, one fence for each job, no nulls.';
  end if;

  if cardinality(p_job_ids) > 1000 then
    raise exception 'job_ids has % elements', cardinality(p_job_ids)
      using errcode = 'RL400', hint = 'A batch is at most 1000 claims.';
  end if;
end;
$$;

comment on function queue._check_claims is 'RL400 unless job_ids and fences pair up, 1,000 at most';
