-- queue._wake_space: the first key of all wake locks, so that they meet no advisory lock of anybody else
create or replace function queue._wake_space()
returns integer
language sql
immutable
as $$ select 1380931403 $$;

comment on function queue._wake_space is 'First key of the wake locks (the bytes of "ROWK")';
