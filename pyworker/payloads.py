"""Payload types, taken from a handler's annotation: from JSON at run time, to JSON at enqueue.

dict, TypedDict and Any pass as they are. Dataclasses are checked field by field, nested ones too;
pydantic and msgspec types are left to their libraries. Fields that a type does not know are
ignored, so that producers may be upgraded before workers.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pyworker.client import JsonText, encode_json
from pyworker.durations import duration
from pyworker.errors import InvalidArgument, RowlockError


class PayloadInvalid(RowlockError):  # noqa: N818
    """A payload that does not fit its handler's type. A job with such a payload fails for good."""


@dataclasses.dataclass(frozen=True, slots=True)
class PayloadType:
    """How payloads of one annotation are read and written. Both raise PayloadInvalid."""

    load: Callable[[Any], Any]
    dump: Callable[[Any], JsonText]


def payload_type(annotation: Any) -> PayloadType:
    """The reader and writer for an annotation. Raises TypeError for one that cannot be handled."""
    if _passes_as_is(annotation):
        return PayloadType(load=_same, dump=_dump_plain)

    foreign = _msgspec(annotation) or _pydantic(annotation)
    if foreign is not None:
        return foreign

    load = _not_too_deep(_loader(annotation))

    def dump(value: Any) -> JsonText:
        text = _dump_plain(_plain(value))
        # What the worker would refuse is refused here, before any SQL.
        load(_plain(value))
        return text

    return PayloadType(load=load, dump=dump)


def _same(value: Any) -> Any:
    return value


def _passes_as_is(annotation: Any) -> bool:
    if annotation in (Any, object, dict, Mapping, list, None) or typing.is_typeddict(annotation):
        return True
    origin = get_origin(annotation)
    return origin is not None and origin in (dict, Mapping, typing.get_origin(Mapping[str, Any]))


def _dump_plain(value: Any) -> JsonText:
    try:
        return encode_json(_plain(value), "payload")
    except InvalidArgument as exc:
        raise PayloadInvalid(str(exc), hint=exc.hint) from exc


def _plain(value: Any) -> Any:
    """`value` with dataclasses, enums, dates and the like turned into what JSON has."""
    match value:
        case enum.Enum():
            return _plain(value.value)
        case None | bool() | int() | float() | str():
            return value
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: _plain(getattr(value, field.name))
                for field in dataclasses.fields(value)
            }
        case Mapping():
            return {_plain_key(key): _plain(item) for key, item in value.items()}
        case datetime() if value.utcoffset() is None:
            raise PayloadInvalid(
                f"a naive datetime: {value.isoformat()}", hint="Give it a time zone."
            )
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID() | Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
    return value


def _plain_key(key: Any) -> Any:
    return str(key) if isinstance(key, UUID) else _plain(key) if isinstance(key, enum.Enum) else key


# --------------------------------------------------------------------------------------------
# pydantic and msgspec, where installed
# --------------------------------------------------------------------------------------------


def _pydantic(annotation: Any) -> PayloadType | None:
    try:
        import pydantic
    except ImportError:
        return None
    if isinstance(annotation, pydantic.TypeAdapter):
        adapter = annotation
    elif isinstance(annotation, type) and (
        issubclass(annotation, pydantic.BaseModel) or hasattr(annotation, "__pydantic_validator__")
    ):
        adapter = pydantic.TypeAdapter(annotation)
    else:
        return None

    def load(value: Any) -> Any:
        try:
            # As JSON and not as Python objects: a date or a set arrives as JSON writes it.
            return adapter.validate_json(encode_json(value, "payload"))
        except (pydantic.ValidationError, InvalidArgument) as exc:
            raise PayloadInvalid(_without_input(exc)) from exc

    def dump(value: Any) -> JsonText:
        try:
            checked = adapter.validate_python(value)
            return JsonText(adapter.dump_json(checked, warnings="error").decode())
        except (ValueError, pydantic.errors.PydanticUserError) as exc:
            raise PayloadInvalid(_without_input(exc)) from exc

    def _without_input(exc: Exception) -> str:
        # pydantic's own text quotes the payload, which has no place in logs.
        if isinstance(exc, pydantic.ValidationError):
            return "; ".join(
                f"{'.'.join(str(part) for part in error['loc']) or 'payload'}: {error['msg']}"
                for error in exc.errors(include_input=False, include_url=False)
            )
        return str(exc)

    return PayloadType(load=load, dump=dump)


def _msgspec(annotation: Any) -> PayloadType | None:
    try:
        import msgspec
    except ImportError:
        return None
    if not (isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)):
        return None

    def load(value: Any) -> Any:
        try:
            return msgspec.convert(value, annotation, strict=True, str_keys=True)
        except msgspec.ValidationError as exc:
            raise PayloadInvalid(str(exc)) from exc

    def dump(value: Any) -> JsonText:
        try:
            text = msgspec.json.encode(value)
            msgspec.json.decode(text, type=annotation)
        except (msgspec.ValidationError, TypeError, ValueError) as exc:
            raise PayloadInvalid(str(exc)) from exc
        return JsonText(text.decode())

    return PayloadType(load=load, dump=dump)


# --------------------------------------------------------------------------------------------
# Dataclasses and what their fields may be
# --------------------------------------------------------------------------------------------

Load = Callable[[Any], Any]


def _loader(annotation: Any, where: str = "payload") -> Load:
    """A function that checks a JSON value against an annotation and builds what it means."""
    if annotation in (Any, object):
        return _same
    if annotation is None or annotation is type(None):
        return _exactly(type(None), where)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _dataclass_loader(annotation, where)

    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return _loader(arguments[0], where)
    if origin in (Union, types.UnionType):
        return _union_loader(arguments, where)
    if origin is Literal:
        return _literal_loader(arguments, where)
    if isinstance(annotation, typing.NewType):
        return _loader(annotation.__supertype__, where)
    if annotation in _SCALARS:
        return _SCALARS[annotation](where)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _converted(annotation, where, (object,))
    if typing.is_typeddict(annotation):
        return _exactly(dict, where)

    container = origin or annotation
    if container in (dict, Mapping, typing.get_origin(Mapping[str, Any])):
        return _mapping_loader(arguments if len(arguments) == 2 else (Any, Any), where)
    if container is tuple and arguments and arguments[-1] is not Ellipsis:
        return _tuple_loader(arguments, where)
    if container in (list, tuple, set, frozenset, Sequence, typing.get_origin(Sequence[Any])):
        build = container if container in (tuple, set, frozenset) else list
        return _sequence_loader(arguments[0] if arguments else Any, build, where)
    raise TypeError(f"{where}: payloads cannot be of type {annotation!r}")


def _not_too_deep(load: Load) -> Load:
    def load_or_refuse(value: Any) -> Any:
        try:
            return load(value)
        except RecursionError:
            raise PayloadInvalid("payload: nested too deeply") from None

    return load_or_refuse


def _wrong(where: str, wanted: str, value: Any) -> PayloadInvalid:
    # The type and never the value: payloads stay out of logs and events.
    return PayloadInvalid(f"{where}: {wanted} wanted, not {type(value).__name__}")


def _exactly(wanted: type, where: str, name: str | None = None) -> Load:
    label = name if name is not None else "null" if wanted is type(None) else wanted.__name__

    def load(value: Any) -> Any:
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is int):
            raise _wrong(where, label, value)
        return value

    return load


def _float(where: str) -> Load:
    def load(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _wrong(where, "float", value)
        try:
            return float(value)
        except OverflowError as exc:
            raise PayloadInvalid(f"{where}: {exc}") from exc

    return load


def _converted(
    convert: Callable[[Any], Any],
    where: str,
    accepted: tuple[type, ...],
    label: str | None = None,
) -> Load:
    name = label if label is not None else str(getattr(convert, "__name__", "value"))

    def load(value: Any) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and object not in accepted):
            raise _wrong(where, name, value)
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError, RowlockError, binascii.Error) as exc:
            raise PayloadInvalid(f"{where}: not a {name}") from exc

    return load


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation as exc:
        raise ValueError("not a decimal") from exc


def _bytes(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


_SCALARS: dict[Any, Callable[[str], Load]] = {
    str: lambda where: _exactly(str, where),
    int: lambda where: _exactly(int, where),
    bool: lambda where: _exactly(bool, where),
    float: _float,
    datetime: lambda where: _converted(datetime.fromisoformat, where, (str,), "datetime"),
    date: lambda where: _converted(date.fromisoformat, where, (str,), "date"),
    time: lambda where: _converted(time.fromisoformat, where, (str,), "time"),
    timedelta: lambda where: _converted(duration, where, (str, int, float), "timedelta"),
    UUID: lambda where: _converted(UUID, where, (str,)),
    Decimal: lambda where: _converted(_decimal, where, (str, int, float), "Decimal"),
    bytes: lambda where: _converted(_bytes, where, (str,), "base64 text"),
}


_around: ContextVar[frozenset[type]] = ContextVar("rowlock_dataclasses", default=frozenset())
"""The dataclasses whose fields are being looked at."""


def _dataclass_loader(annotation: type, where: str) -> Load:
    try:
        hints = typing.get_type_hints(annotation, include_extras=True)
    except NameError as exc:
        raise TypeError(f"{where}: a field of {annotation.__name__} is not known: {exc}") from exc
    known = [field for field in dataclasses.fields(annotation) if field.init]
    required = {
        field.name
        for field in known
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    def build() -> dict[str, Load]:
        return {field.name: _loader(hints[field.name], f"{where}.{field.name}") for field in known}

    # At once, so that a field which cannot be is known at the start; a dataclass inside of itself
    # when there is a value for it.
    loaders: dict[str, Load] | None = None
    around = _around.get()
    if annotation not in around:
        token = _around.set(around | {annotation})
        try:
            loaders = build()
        finally:
            _around.reset(token)

    def load(value: Any) -> Any:
        nonlocal loaders
        if isinstance(value, annotation):
            value = _plain(value)
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        if loaders is None:
            loaders = build()
        missing = sorted(required - value.keys())
        if missing:
            raise PayloadInvalid(f"{where}: missing {', '.join(missing)}")
        given = {
            name: load_field(value[name]) for name, load_field in loaders.items() if name in value
        }
        try:
            return annotation(**given)
        except Exception as exc:
            # __post_init__ may have rules of its own.
            raise PayloadInvalid(f"{where}: {exc}") from exc

    return load


def _union_loader(arguments: tuple[Any, ...], where: str) -> Load:
    # null first, so that a complaint is about what else was wanted.
    in_order = sorted(arguments, key=lambda argument: argument is not type(None))
    loaders = [_loader(argument, where) for argument in in_order]
    names = " or ".join(getattr(argument, "__name__", str(argument)) for argument in arguments)

    def load(value: Any) -> Any:
        for attempt in loaders:
            try:
                return attempt(value)
            except PayloadInvalid as exc:
                last = exc
        if sum(argument is not type(None) for argument in arguments) == 1:
            raise last
        raise _wrong(where, names, value)

    return load


def _literal_loader(arguments: tuple[Any, ...], where: str) -> Load:
    def load(value: Any) -> Any:
        for argument in arguments:
            if value == argument and type(value) is type(argument):
                return value
        raise PayloadInvalid(f"{where}: one of {', '.join(map(repr, arguments))} wanted")

    return load


def _mapping_loader(arguments: tuple[Any, ...], where: str) -> Load:
    load_key = _key_loader(arguments[0], where)
    load_item = _loader(arguments[1], f"{where}[]")

    def load(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        return {load_key(key): load_item(each) for key, each in value.items()}

    return load


def _key_loader(annotation: Any, where: str) -> Load:
    """JSON's keys are texts, whatever they were in Python."""
    if isinstance(annotation, typing.NewType):
        return _key_loader(annotation.__supertype__, where)
    where = f"{where}, a key"
    if annotation is int:
        # A key that is an int still is one of a payload on its way out.
        return _converted(int, where, (str, int))
    if annotation in (Any, str, UUID) or get_origin(annotation) is Literal:
        return _loader(annotation, where)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        members = {str(_plain(each)): each for each in annotation}

        def load(value: Any) -> Any:
            if value not in members:
                raise PayloadInvalid(f"{where}: not a {annotation.__name__}")
            return members[value]

        return load
    raise TypeError(f"{where}: keys of payloads cannot be of type {annotation!r}")


def _sequence_loader(item: Any, build: Callable[[Any], Any], where: str) -> Load:
    load_item = _loader(item, f"{where}[]")

    def load(value: Any) -> Any:
        if not isinstance(value, list):
            raise _wrong(where, "an array", value)
        try:
            return build([load_item(each) for each in value])
        except TypeError as exc:
            raise PayloadInvalid(f"{where}: {exc}") from exc

    return load


def _tuple_loader(arguments: tuple[Any, ...], where: str) -> Load:
    loaders = [_loader(argument, f"{where}[{i}]") for i, argument in enumerate(arguments)]

    def load(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(loaders):
            raise _wrong(where, f"an array of {len(loaders)}", value)
        return tuple(each(item) for each, item in zip(loaders, value, strict=True))

    return load
