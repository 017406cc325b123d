-- The shop's own tables, beside schema queue in the same database.
create schema if not exists shop;

create table if not exists shop.orders (
  id bigint generated always as identity primary key,
  email text not null,
  placed_at timestamptz not null default now()
);

create table if not exists shop.photos (
  id bigint generated always as identity primary key,
  order_id bigint not null references shop.orders,
  file text not null,
  thumbnail text
);

-- What was sent, so that a job that runs twice sends once.
create table if not exists shop.mails (
  order_id bigint not null references shop.orders,
  template text not null,
  sent_at timestamptz not null default now(),
  primary key (order_id, template)
);
