begin;
select no_plan();

create function pg_temp.same(a text, b text) returns boolean language sql as $$
  select queue._error_group('k', 'E', a) = queue._error_group('k', 'E', b);
$$;

select matches(
  queue._error_group('k', 'E', 'm'), '^[0-9a-f]{16}$', 'A fingerprint is 16 hex digits'
);
select ok(pg_temp.same(a, b), rule)
from (
  values
    ('order 17 not found', 'order 9981 not found', 'Numbers do not matter'),
    ('key "abc" is taken', 'key "xyz" is taken', 'Quoted words do not matter'),
    ('no ''abc''', 'no ''x y''', 'Nor do those in single quotes'),
    ('at 0x7fff01', 'at 0xdeadbeef', 'Nor do addresses'),
    (
      'job 7d793037-a076-4d3c-8d1e-2f3b0a1c9e11 lost',
      'job 00000000-a076-4d3c-8d1e-2f3b0a1c9e12 lost', 'Nor do uuids'
    ),
    (
      'boom' || E'\n' || 'line 3', 'boom' || E'\n' || 'line 4 of another',
      'Only the first line counts'
    ),
    (repeat('x', 300) || 'a', repeat('x', 300) || 'b', 'Only its first 300 characters do'),
    (null, '', 'No message is like an empty one')
) as alike (a, b, rule);
select ok(not pg_temp.same('not found', 'not allowed'), 'Other words are another group');
select isnt(
  queue._error_group('k', 'E', 'm'), queue._error_group('k', 'F', 'm'), 'So is another type'
);
select isnt(
  queue._error_group('k', 'E', 'm'), queue._error_group('l', 'E', 'm'), 'And another kind'
);

select * from finish();
rollback;
