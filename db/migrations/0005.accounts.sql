-- People and programs that reach the queue through the dashboard and its API: accounts with a password, their sessions, and
-- tokens. Only digests of secrets are kept. What each may do is a database role.

create table queue.accounts (
  account text primary key,
  role text not null,
  password_hash text,
  created_at timestamptz not null default clock_timestamp(),
  disabled_at timestamptz,

  constraint account_is_a_name check (account ~ '^[a-z0-9][a-z0-9_.@+-]{0,127}$'),
  constraint role_is_known check (role in ('viewer', 'operator', 'admin')),
  constraint password_hash_fits check (length(password_hash) between 20 and 500)
);

create table queue.sessions (
  digest bytea primary key,
  account text not null references queue.accounts on delete cascade,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  address text,
  agent text
);

create index sessions_of_account on queue.sessions (account);

create table queue.sign_in_links (
  digest bytea primary key,
  account text not null references queue.accounts on delete cascade,
  expires_at timestamptz not null
);

create table queue.sign_in_failures (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  account text not null,
  address text not null
);

create index sign_in_failures_of_address on queue.sign_in_failures (address, at);

create table queue.tokens (
  id bigint generated always as identity primary key,
  name text not null,
  role text not null,
  digest bytea not null unique,
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  used_at timestamptz,

  constraint name_fits check (length(name) between 1 and 100),
  constraint role_is_known check (role in ('producer', 'worker', 'viewer', 'operator', 'admin'))
);

comment on table queue.accounts is 'People who may sign in to the dashboard';
comment on table queue.sessions is 'Signed-in browsers, by the digest of their cookie';
comment on table queue.sign_in_links is 'Links that sign an account in once';
comment on table queue.sign_in_failures is 'Wrong passwords of the last quarter of an hour, for the throttle';
comment on table queue.tokens is 'Secrets of programs that use the API, by digest';
