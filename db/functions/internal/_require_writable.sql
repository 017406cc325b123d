-- queue._require_writable: a standby or a read-only transaction says so in words a client can act on
create or replace function queue._require_writable()
returns void
language plpgsql
as $$
begin
  if current_setting('transaction_read_only')::boolean then
    raise exception 'this connection can only read'
      using errcode = 'RL503',
        hint = 'Connect to the primary server, in a read-write transaction, and ask again.';
  end if;
end;
$$;

comment on function queue._require_writable is 'RL503 on a standby or in a read-only transaction';
