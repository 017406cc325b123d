"""The OpenAPI document and the application are one: routes, roles, examples, answers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.webapi.conftest import DOCUMENT, ROLES, Api, operations, resolve, validator

OPERATIONS = list(operations())


def test_it_is_valid_openapi() -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_every_route_is_in_it_and_it_has_no_other(app: Flask) -> None:
    routes = {
        (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.endpoint.startswith("api.")
    }
    assert routes == {(method, path) for method, path, _ in OPERATIONS}


def test_operations_have_ids_of_their_own_and_say_what_they_do() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    for _, _, operation in OPERATIONS:
        assert operation["summary"]
        assert operation["tags"][0] in {tag["name"] for tag in DOCUMENT["tags"]}


def test_path_parameters_are_described() -> None:
    for _, path, operation in OPERATIONS:
        described = {
            found["name"]
            for found in map(resolve, operation.get("parameters", []))
            if found["in"] == "path"
        }
        assert described == set(re.findall(r"{(\w+)}", path)), path


def test_bodies_are_closed_and_their_examples_fit() -> None:
    for method, path, operation in OPERATIONS:
        schema = body_schema(operation)
        if schema is None:
            continue
        closed = resolve(schema)
        assert closed["additionalProperties"] is False, f"{method} {path}"
        assert closed["examples"], f"{method} {path}"
        for example in closed["examples"]:
            validator(schema).validate(example)


def test_examples_of_answers_fit() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for example in schema.get("examples", []):
            validator({"$ref": f"#/components/schemas/{name}"}).validate(example)
    for response in DOCUMENT["components"]["responses"].values():
        for content in response.get("content", {}).values():
            validator(content["schema"]).validate(content["example"])


def test_every_schema_is_used() -> None:
    used = set(re.findall(r"#/components/(\w+/\w+)", str(DOCUMENT)))
    there = {
        f"{kind}/{name}"
        for kind in ("schemas", "parameters", "responses", "headers")
        for name in DOCUMENT["components"][kind]
    }
    assert there == used


@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[one["operationId"] for *_, one in OPERATIONS]
)
def test_the_database_lets_those_roles_call_it_and_no_other(
    shared_api: Api, method: str, path: str, operation: dict[str, Any]
) -> None:
    api = shared_api
    address, body = example_call(path, operation)

    for role in ROLES:
        response = api.call(method, address, role, body)
        if role in operation["x-roles"]:
            assert response.status_code not in {401, 403}, f"{role}: {response.get_data(True)}"
        else:
            assert response.status_code == 403, f"{role}: {response.get_data(True)}"
            assert response.json["detail"].startswith("permission denied for function")

    assert api.call(method, address, None, body).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[one["operationId"] for *_, one in OPERATIONS]
)
def test_an_unknown_parameter_is_400(
    shared_api: Api, method: str, path: str, operation: dict[str, Any]
) -> None:
    address, body = example_call(path, operation)
    response = shared_api.call(method, address, operation["x-roles"][0], body, nope="1")
    assert (response.status_code, response.json["code"]) == (400, "invalid_parameter")
    assert response.json["errors"] == [{"field": "nope", "detail": "is unknown"}]


def test_the_document_is_served_with_a_session_or_token(api: Api) -> None:
    assert api.get("/api/openapi.json", "producer") == DOCUMENT


def example_call(path: str, operation: dict[str, Any]) -> tuple[str, Any]:
    """An address and a body made of the document's examples."""
    address = path
    for parameter in map(resolve, operation.get("parameters", [])):
        if parameter["in"] == "path":
            address = address.replace(f"{{{parameter['name']}}}", parameter["example"])
    schema = body_schema(operation)
    return address, None if schema is None else resolve(schema)["examples"][0]


def body_schema(operation: dict[str, Any]) -> dict[str, Any] | None:
    content = operation.get("requestBody", {}).get("content", {})
    return content["application/json"]["schema"] if content else None
