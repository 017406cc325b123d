begin;
select no_plan();

select is(queue._misfit(document::json), said, 'In ' || document)
from (
  values
    ('{}', null),
    (
      '{"delay": "1 s", "priority": 3, "job_id": 3000000000, "fatal": "yes", "available_at": null}',
      null
    ),
    ('{"result": "soon", "reason": 7}', null),
    ('{"reason": "x", "retry_in": "soon"}', 'retry_in ''soon'' is no interval'),
    ('{"fence": 3000000000}', 'fence ''3000000000'' is no integer'),
    ('{"max_attempts": 1.5}', 'max_attempts ''1.5'' is no integer'),
    ('{"job_id": 1e2}', 'job_id ''1e2'' is no bigint'),
    (
      '{"available_at": "2027-13-01T00:00Z"}',
      'available_at ''2027-13-01T00:00Z'' is no timestamptz'
    ),
    ('{"fatal": {}}', 'fatal ''{}'' is no boolean'),
    ('[]', 'it is a JSON array'),
    ('7', 'it is a JSON number')
) as given (document, said);

select * from finish();
rollback;
