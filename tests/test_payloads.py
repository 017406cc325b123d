"""Payload types: what is read, what is written, and what is refused, on both sides."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from pyworker.payloads import PayloadInvalid, payload_type


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    number: int
    lines: list[Line]
    paid: bool = False
    price: float = 0.0
    note: str | None = None
    tags: dict[str, int] = field(default_factory=dict)
    colour: Colour = Colour.RED
    size: Literal["s", "m"] = "s"
    at: datetime | None = None
    day: date | None = None
    span: timedelta | None = None
    ref: UUID | None = None
    amount: Decimal | None = None
    blob: bytes = b""
    pair: tuple[int, str] = (1, "a")
    many: tuple[int, ...] = ()
    unique: set[str] = field(default_factory=set)
    parent: Optional[Order] = None  # noqa: UP045
    anything: Any = None
    named: Annotated[int, "a note"] = 0


FULL = Order(
    number=7,
    lines=[Line("a"), Line("b", 2)],
    paid=True,
    price=1.5,
    note="n",
    tags={"x": 1},
    at=datetime(2026, 11, 29, 12, tzinfo=UTC),
    day=date(2026, 11, 29),
    span=timedelta(seconds=90),
    ref=UUID(int=5),
    amount=Decimal("1.10"),
    blob=b"\x00\xff",
    pair=(2, "b"),
    many=(1, 2),
    unique={"u"},
    parent=Order(1, []),
    anything={"free": [1]},
    named=3,
)


class Plain(TypedDict):
    to: str


class Struct(msgspec.Struct):
    to: str
    count: int = 1


class Model(pydantic.BaseModel):
    to: str
    count: int = 1
    day: date | None = None


def test_a_dataclass_comes_back_as_it_went() -> None:
    of = payload_type(Order)
    assert of.load(json.loads(of.dump(FULL))) == FULL


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([], "an object wanted, not list"),
        (None, "an object wanted, not NoneType"),
        ({}, "missing lines, number"),
        ({"number": "7", "lines": []}, "payload.number: int wanted, not str"),
        ({"number": True, "lines": []}, "payload.number: int wanted, not bool"),
        ({"number": 1, "lines": {}}, "payload.lines: an array wanted, not dict"),
        ({"number": 1, "lines": [{}]}, "payload.lines[]: missing sku"),
        ({"number": 1, "lines": [{"sku": 1}]}, "payload.lines[].sku: str wanted, not int"),
        ({"number": 1, "lines": [], "paid": 1}, "payload.paid: bool wanted"),
        ({"number": 1, "lines": [], "price": "1"}, "payload.price: float wanted"),
        ({"number": 1, "lines": [], "colour": "blue"}, "payload.colour: not a Colour"),
        ({"number": 1, "lines": [], "size": "xl"}, "payload.size: one of 's', 'm' wanted"),
        ({"number": 1, "lines": [], "at": "noon"}, "payload.at: not a datetime"),
        ({"number": 1, "lines": [], "ref": "x"}, "payload.ref: not a UUID"),
        ({"number": 1, "lines": [], "amount": "x"}, "payload.amount: not a Decimal"),
        ({"number": 1, "lines": [], "blob": "??"}, "payload.blob: not a base64 text"),
        ({"number": 1, "lines": [], "pair": [1]}, "payload.pair: an array of 2 wanted"),
        ({"number": 1, "lines": [], "tags": {"a": "b"}}, "payload.tags[]: int wanted"),
        ({"number": 1, "lines": [], "note": 5}, "payload.note: str wanted, not int"),
    ],
)
def test_what_does_not_fit_is_refused_and_named(given: Any, complaint: str) -> None:
    with pytest.raises(PayloadInvalid) as refused:
        payload_type(Order).load(given)
    assert complaint in str(refused.value)


def test_a_complaint_never_quotes_the_payload() -> None:
    for of in (payload_type(Order), payload_type(Model), payload_type(Struct)):
        with pytest.raises(PayloadInvalid) as refused:
            of.load({"number": "hunter2", "lines": "hunter2", "to": 5, "count": "hunter2"})
        assert "hunter2" not in str(refused.value)


def test_fields_that_a_type_does_not_know_are_ignored() -> None:
    for of in (payload_type(Line), payload_type(Struct), payload_type(Model)):
        of.load({"sku": "a", "to": "b", "from_a_newer_producer": 1})


UserId = NewType("UserId", int)


@dataclass
class Keyed:
    by_number: dict[int, str]
    by_ref: dict[UUID, int]
    by_colour: dict[Colour, Line]
    owner: UserId


def test_keys_come_back_as_what_they_were() -> None:
    of = payload_type(Keyed)
    keyed = Keyed({7: "seven"}, {UUID(int=5): 1}, {Colour.RED: Line("a")}, UserId(3))
    assert of.load(json.loads(of.dump(keyed))) == keyed
    with pytest.raises(PayloadInvalid, match=r"payload\.by_number, a key: not a int"):
        of.load({"by_number": {"x": ""}, "by_ref": {}, "by_colour": {}, "owner": 1})
    with pytest.raises(PayloadInvalid, match=r"payload\.by_colour, a key: not a Colour"):
        of.load({"by_number": {}, "by_ref": {}, "by_colour": {"blue": {}}, "owner": 1})


@dataclass
class Strict:
    price: float = 0.0
    sets: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        assert self.price >= 0, "a price is not negative"


@dataclass
class Nest:
    inner: Nest | None = None


def nest(depth: int) -> Any:
    return {"inner": nest(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("of", "given", "complaint"),
    [
        (Strict, {"price": -1.0}, "a price is not negative"),
        (Strict, {"price": 10**400}, "payload.price: int too large"),
        (Strict, {"sets": [[1]]}, "payload.sets: unhashable"),
        (Nest, nest(900), "nested too deeply"),
    ],
)
def test_what_python_cannot_build_does_not_fit(of: type, given: Any, complaint: str) -> None:
    with pytest.raises(PayloadInvalid, match=complaint):
        payload_type(of).load(given)


def test_an_integer_serves_as_a_float() -> None:
    assert payload_type(Order).load({"number": 1, "lines": [], "price": 2}).price == 2.0


@pytest.mark.parametrize("annotation", [dict, dict[str, Any], Plain, Any, object])
def test_plain_payloads_pass_as_they_are(annotation: Any) -> None:
    of = payload_type(annotation)
    value = {"to": "a", "n": [1, None, {"deep": 1.5}]}
    assert of.load(value) is value
    assert json.loads(of.dump(value)) == value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, {"number": "7", "lines": []}),
        (Order, Order("7", [])),  # type: ignore[arg-type]
        (Order, 5),
        (dict, {"x": object()}),
        (dict, {"x": float("nan")}),
        (dict, {"at": datetime(2026, 1, 1)}),
        (Struct, {"to": 5}),
        (Model, {"count": "many"}),
    ],
)
def test_what_the_worker_would_refuse_is_refused_at_enqueue(annotation: Any, value: Any) -> None:
    with pytest.raises(PayloadInvalid):
        payload_type(annotation).dump(value)


def test_pydantic_and_msgspec_types() -> None:
    model = payload_type(Model)
    written = model.dump(Model(to="a", day=date(2026, 1, 2)))
    assert json.loads(written) == {"to": "a", "count": 1, "day": "2026-01-02"}
    assert model.load(json.loads(written)) == Model(to="a", day=date(2026, 1, 2))
    with pytest.raises(PayloadInvalid, match="to: Field required"):
        model.load({})

    struct = payload_type(Struct)
    assert struct.load(json.loads(struct.dump(Struct("a", 2)))) == Struct("a", 2)
    with pytest.raises(PayloadInvalid, match="missing required field `to`"):
        struct.load({})


def test_a_type_that_is_no_payload_is_refused_when_declared() -> None:
    @dataclass
    class Odd:
        file: complex

    @dataclass
    class Around:
        odd: Odd | None = None

    @dataclass
    class ByPlace:
        names: dict[tuple[int, int], str]

    @dataclass
    class Unknown:
        of: NowhereToBeFound  # type: ignore[name-defined]  # noqa: F821

    Around.__annotations__["odd"] = Odd | None
    for of, complaint in [
        (Odd, r"payload\.file"),
        (Around, r"payload\.odd\.file"),
        (ByPlace, r"payload\.names, a key"),
        (Unknown, "a field of Unknown is not known"),
        (complex, "payload"),
    ]:
        with pytest.raises(TypeError, match=complaint):
            payload_type(of)
