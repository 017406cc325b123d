-- queue._wake_bucket: which of 64 wake locks a queue uses
--
-- A lock a queue would fill the lock table; two queues in one bucket cost a needless NOTIFY.
create or replace function queue._wake_bucket(p_queue text)
returns integer
language sql
immutable
as $$ select hashtext(p_queue) & 63 $$;

comment on function queue._wake_bucket is 'Which of 64 wake locks a queue uses';
