-- queue._actor: who acts, for events: the actor claimed in rowlock.actor, else the session's user
--
-- session_user_name is null where the name already is the session's user.
create or replace function queue._actor()
returns table (name text, session_user_name text)
language sql
stable
as $$
  select
    coalesce(left(claimed.actor, 255), session_user),
    case when claimed.actor is not null then session_user end
  from (select nullif(current_setting('rowlock.actor', true), '') as actor) as claimed;
$$;

comment on function queue._actor is 'Who acts: the claimed actor, else the session''s user';
