"""The schema of `loft compare --json`, and a stricter one that says whether it is complete."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from loft_malloc import places

SCHEMA = json.loads((places.PACKAGE / "compare.schema.json").read_text())


def closed(schema: Any) -> Any:
    """The same, and nothing besides: for others a new field is no error, for tests it is."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        made["additionalProperties"] = False
    return made


def check(data: Any) -> None:
    Draft202012Validator(closed(SCHEMA)).validate(data)
