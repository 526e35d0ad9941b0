"""Owns the text of the generated modules: types of documents, and a method for each operation. Reads no file."""

from __future__ import annotations

import json
import keyword

from operations import NAMES, NOT_TWICE

PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
MADE = "Generated from docs/openapi.json by tools/generate.py."


def python_type(schema: dict, module: str = "") -> str:
    """The annotation of a schema. `module` is the prefix of named types."""
    if "$ref" in schema:
        return module + schema["$ref"].rsplit("/", 1)[1]
    if "oneOf" in schema:
        return union([python_type(one, module) for one in schema["oneOf"]])
    kind = schema.get("type")
    if isinstance(kind, list):
        return union([python_type({**schema, "type": one}, module) for one in kind])
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(word) for word in schema['enum'])}]"
    if kind == "array":
        return f"List[{python_type(schema['items'], module)}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Dict[str, {python_type(values, module) if isinstance(values, dict) else 'Any'}]"
    return PLAIN.get(kind, "Any")


def union(types: list[str]) -> str:
    others = [one for one in types if one != "None"]
    hint = others[0] if len(others) == 1 else f"Union[{', '.join(others)}]"
    return hint if len(others) == len(types) else f"Optional[{hint}]"


def words(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")


def schemas_module(schemas: dict) -> str:
    lines = [
        f'"""Owns the types of the documents of the API. {MADE}"""',
        "from __future__ import annotations",
        "from typing import Any, Dict, List, Literal, Optional, Union",
        "from typing_extensions import NotRequired, TypedDict",
    ]
    aliases = {name: schema for name, schema in schemas.items() if "properties" not in schema}
    for name, schema in aliases.items():
        lines += [f"{name} = {python_type(schema)}", f'"""{words(schema["description"])}"""']
    for name, schema in schemas.items():
        if name not in aliases:
            lines += document(name, schema)
    return "\n".join(lines) + "\n"


def document(name: str, schema: dict) -> list[str]:
    required = schema.get("required", [])
    fields = {}
    for field, value in schema["properties"].items():
        hint = python_type(value)
        fields[field] = hint if field in required else f"NotRequired[{hint}]"
    if any(keyword.iskeyword(field) for field in fields):
        inner = ", ".join(f"{json.dumps(field)}: {json.dumps(hint)}" for field, hint in fields.items())
        return [f'{name} = TypedDict("{name}", {{{inner},}})', f'"""{words(schema["description"])}"""']
    lines = [f"class {name}(TypedDict):", f'    """{words(schema["description"])}"""']
    for field, hint in fields.items():
        lines.append(f"    {field}: {hint}")
        told_of = schema["properties"][field].get("description")
        if told_of:
            lines.append(f'    """{words(told_of)}"""')
    return lines


def group_module(name: str, members: list[tuple[str, str, dict]]) -> str:
    lines = [
        f'"""Owns the operations of the group `{name}`. {MADE}"""',
        "from __future__ import annotations",
        "from typing import List, Optional, Union",
        "from . import schemas",
        "from .calling import AsyncGroup, Call, Group, escaped, new_key",
    ]
    for prefix in ("", "Async"):
        lines += [f"class {prefix}{name.title()}({prefix}Group):", f'    """The operations of the group `{name}`."""']
        for path, method, operation in members:
            lines += member(path, method, operation, is_async=bool(prefix))
    return "\n".join(lines) + "\n"


def answer(operation: dict) -> str:
    """The type of the answer: a document, a text, or nothing."""
    good = [value for status, value in operation["responses"].items() if status.startswith("2")]
    content = good[0].get("content", {})
    if not content:
        return "None"
    kind, value = next(iter(content.items()))
    return python_type(value["schema"], "schemas.") if kind == "application/json" else "str"


def member(path: str, method: str, operation: dict, *, is_async: bool) -> list[str]:
    known = operation["operationId"]
    positional, named, query, headers = [], [], [], []
    for parameter in operation.get("parameters", []):
        field, hint = parameter["name"], python_type(parameter["schema"], "schemas.")
        if parameter["in"] == "path":
            positional.append(f"{field}: {hint}")
            path = path.replace(f"{{{field}}}", f"{{escaped({field})}}")
        elif parameter["in"] == "query":
            query.append(f'"{field}": {field}')
            if parameter.get("required"):
                positional.append(f"{field}: {hint}")
            else:
                named.append(f"{field}: Optional[{hint}] = None")
        else:
            variable = field.lower().replace("-", "_")
            named.append(f"{variable}: Optional[str] = None")
            headers.append(f'"{field}": {variable} or new_key()')
    body = operation.get("requestBody")
    if body:
        hint = python_type(body["content"]["application/json"]["schema"], "schemas.")
        positional.append(f"body: {hint}" + ("" if body.get("required") else " = None"))
    arguments = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    result = answer(operation)
    twice = (method in ("get", "put", "delete") or bool(headers)) and known not in NOT_TWICE
    parts = [f'"{method.upper()}"', f'f"{path}"' if "{" in path else f'"{path}"']
    if query:
        parts.append(f"query={{{', '.join(query)}}}")
    if headers:
        parts.append(f"headers={{{', '.join(headers)}}}")
    if body:
        parts.append("body=body")
    if twice:
        parts.append("twice=True")
    if result == "str":
        parts.append("is_text=True")
    return [
        f"    {'async ' if is_async else ''}def {NAMES[known].split('.')[1]}({arguments}) -> {result}:",
        f'        """{words(operation["summary"])}"""',
        f"        return {'await ' if is_async else ''}self._send(Call[{result}]({', '.join(parts)}))",
    ]
