begin;
select no_plan();

select is(queue._clean_json(given::json)::text, expected, rule)
from (
  values
    ('{"a": [1, "x"]}', '{"a": [1, "x"]}', 'What is clean comes back as it was'),
    ('"\u0000"', '"\ufffd"', 'A NUL becomes U+FFFD'),
    ('"a\u0000\u0000b"', '"a\ufffd\ufffdb"', 'So does each of several'),
    ('{"\u0000": 1}', '{"\ufffd": 1}', 'A name is cleaned like a value'),
    ('"\ud800"', '"\ufffd"', 'A high surrogate by itself becomes U+FFFD'),
    ('"\uDFFF"', '"\ufffd"', 'So does a low one, in capitals too'),
    ('"\udc00\ud800"', '"\ufffd\ufffd"', 'Two halves in the wrong order are no pair'),
    ('"\ud83d\ude00"', '"\ud83d\ude00"', 'A pair stays'),
    ('"\uD83D\uDE00\ud83d"', '"\uD83D\uDE00\ufffd"', 'A half after a pair does not spoil it'),
    ('"\ud800\ud83d\ude00"', '"\ufffd\ud83d\ude00"', 'Nor does one before it'),
    ('"\\u0000"', '"\\u0000"', 'A backslash that is itself escaped starts no escape'),
    ('"\\\u0000"', '"\\\ufffd"', 'The one after it does'),
    ('"\\\\u0000 \\ud800"', '"\\\\u0000 \\ud800"', 'Pairs of backslashes are text'),
    (
      '"\\uPAIRd83dde00 \u0000"', '"\\uPAIRd83dde00 \ufffd"',
      'Nothing that a text may say is taken for an escape'
    ),
    ('"\u00000"', '"\ufffd0"', 'An escape has four digits'),
    ('"\u000a \uabcd \ue000 \uffff"', '"\u000a \uabcd \ue000 \uffff"', 'Other escapes stay')
) as asked (given, expected, rule);
select is(queue._clean_json(null)::text, null, 'Null stays null');
select lives_ok(
  $$ select queue._clean_json(to_json(repeat('\u0000\\', 100000))) $$,
  'A long text is cleaned as well'
);

set local standard_conforming_strings = off;
select is(
  queue._clean_json(E'"\\u0000"')::text,
  E'"\\ufffd"',
  'A session''s rules for strings do not matter'
);

select * from finish();
rollback;
