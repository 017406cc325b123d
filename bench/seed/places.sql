-- Two kinds a queue; each kind fails in its own two or three ways.
create temporary table place as
select
  number,
  queue,
  kind,
  (array['SmtpError', 'TimeoutError', 'CardDeclined', 'HTTPError', 'KeyError'])[1 + number % 5]
    as error_type
from (
    select
      (row_number() over () - 1)::integer as number,
      named.queue,
      named.queue || '.' || verb.name as kind
    from unnest(array[
        'default', 'email', 'billing', 'invoices', 'webhooks', 'thumbnails', 'search', 'reports', 'imports',
        'exports', 'sms', 'push', 'fraud', 'payouts', 'ledger', 'audit', 'cleanup', 'media', 'sync', 'orders'
      ]) as named (queue)
      cross join unnest(array['process', 'notify']) as verb (name)
  ) as numbered;
