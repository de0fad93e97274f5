"""JSON Schemas of the documents, from their classes: what `harness.documents.files` reads and writes.

The reader is strict, so an object has no other keys than the fields of its class.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ci.reference.markdown import code, table
from ci.reference.source_docs import definition, fields_of, paragraphs
from harness import wire
from harness.checks.check_verdict import CheckVerdict
from harness.documents.bisection import BisectionDocument
from harness.documents.build_matrix import BuildMatrix
from harness.documents.campaign import CampaignReport
from harness.documents.chunk import Chunk, ShardReport
from harness.documents.finding import CaseDocument, FindingDocument, RegionDocument, RegressionDocument
from harness.documents.gate_report import GateReport
from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.documents.night_log import NightEntry
from harness.documents.night_unit import NightUnit
from harness.documents.upgrade_report import UpgradeReport
from harness.model.finding import Finding
from harness.reports.morning_document import MorningDocument
from studies.corpus.results import CorpusResults
from studies.mutation.score import MutationResults

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = "schemas"
DOCUMENTS: Mapping[type[Any], str] = {
    FindingDocument: "`.harness/findings/<id>/finding.json`, from a search",
    RegressionDocument: "`suites/regressions/<id>.json`, from `harness keep`",
    CaseDocument: "a person, who replays a case with its libraries",
    CampaignReport: "`harness fuzz --json`, `harness report --merge --json`",
    ShardReport: "`harness fuzz --shard … --json`",
    Chunk: "`.harness/chunks/<id>.json`, from a divided search",
    RegionDocument: "`harness region`",
    BisectionDocument: "`harness bisect --json`",
    CorpusResults: "`python -m studies.corpus --json`",
    MutationResults: "`python -m studies.mutation --json`",
    BuildMatrix: "`harness matrix --json`",
    UpgradeReport: "`harness upgrade --json`",
    NightUnit: "`nights/units/*.json`, from `harness night`",
    NightEntry: "`nights/log/*.jsonl`, a line each, from `harness night`",
    MorningDocument: "`harness morning --json`",
    CheckVerdict: "`harness check --json`",
    GateReport: "`harness gate --json`",
}
"""By class, what writes each document."""
PLAIN: Mapping[Any, Schema] = {
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    date: {"type": "string", "format": "date"},
    NoneType: {"type": "null"},
}
NUMBER: Schema = {
    "anyOf": [
        {"type": "number"},
        {
            "type": "object",
            "properties": {"float": {"enum": sorted(wire.NOT_FINITE)}},
            "required": ["float"],
            "additionalProperties": False,
        },
    ]
}
"""A number; those that JSON lacks are objects."""


def kinds() -> str:
    """Return a table of the kinds of documents."""
    rows = (
        (
            code(kind_of(document)),
            paragraphs(document).partition("\n")[0],
            writer,
            f"[schema]({FOLDER}/{_file(document)})",
        )
        for document, writer in DOCUMENTS.items()
    )
    return table(("kind", "holds", "written by", "schema"), rows)


def files() -> dict[str, str]:
    """Return the text of each schema file by its path in the reference."""
    return {
        f"{FOLDER}/{_file(document)}": json.dumps(schema_of(document), indent=2, ensure_ascii=False) + "\n"
        for document in DOCUMENTS
    }


def schema_of(document: type[Any]) -> Schema:
    """Return the whole schema of a document."""
    definitions: dict[str, Schema] = {}
    body = _object(document, definitions)
    title = f"kernel-harness: {kind_of(document)}, schema version {SCHEMA_VERSION}"
    named = {name: definitions[name] for name in sorted(definitions)}
    return {"$schema": DIALECT, "title": title, **body, "$defs": named}


def kind_of(document: type[Any]) -> Kind:
    """Return the kind of a class of documents."""
    return Kind(next(field.default for field in fields(document) if field.name == "kind"))


def _file(document: type[Any]) -> str:
    return f"{kind_of(document)}.schema.json"


def _object(of: type[Any], definitions: dict[str, Schema], tag: str = "") -> Schema:
    """Return the schema of a dataclass; a member of a union has its class name as `tag`."""
    types, texts = get_type_hints(of), _texts(of)
    properties: dict[str, Schema] = {wire.TAG: {"const": tag}} if tag else {}
    for field in fields(of):
        is_fixed = of in DOCUMENTS and field.name in {"kind", "schema_version"}
        fixed = {"const": field.default}
        properties[field.name] = fixed if is_fixed else _schema(types[field.name], definitions)
        if text := texts.get(field.name):
            properties[field.name] = {**properties[field.name], "description": text}
    required = [wire.TAG] if tag else []
    required += ["kind", "schema_version"] if of in DOCUMENTS else []
    required += [field.name for field in fields(of) if field.default is MISSING and field.default_factory is MISSING]
    return {
        "description": paragraphs(of),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


@cache
def _texts(of: type[Any]) -> dict[str, str]:
    """Return the docstrings of the fields, inherited ones included."""
    bases = [base for base in reversed(of.__mro__) if is_dataclass(base)]
    return {field.name: " ".join(field.text.split()) for base in bases for field in fields_of(base)}


def _schema(of: Any, definitions: dict[str, Schema]) -> Schema:
    if of in PLAIN:
        return dict(PLAIN[of])
    if of is float:
        return NUMBER
    if of is Finding:  # written as a document of its own
        return _reference(FindingDocument, definitions)
    if isinstance(of, type) and issubclass(of, Enum):
        return {"enum": [member.value for member in of]}
    if is_dataclass(of):
        assert isinstance(of, type)
        return _reference(of, definitions)
    arguments = get_args(of)
    if get_origin(of) in {UnionType, Union}:
        return {"anyOf": list(_members(of, definitions))}
    if get_origin(of) is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if get_origin(of) is tuple:
        items = [_schema(one, definitions) for one in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if get_origin(of) is frozenset:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    key, value = arguments  # of a mapping
    names = {} if key is str else {"propertyNames": _schema(key, definitions)}
    return {"type": "object", **names, "additionalProperties": _schema(value, definitions)}


def _members(union: Any, definitions: dict[str, Schema]) -> Iterator[Schema]:
    """Yield the schema of each member; those of a tagged union have their class name in them."""
    members = set(get_args(union))
    tagged = {member for known in wire.UNIONS for member in get_args(known) if set(get_args(known)) <= members}
    for member in get_args(union):
        yield _reference(member, definitions, tag=member.__name__) if member in tagged else _schema(member, definitions)


def _reference(of: type[Any], definitions: dict[str, Schema], tag: str = "") -> Schema:
    """Return a reference to the definition of a class, which is added if it is not there yet."""
    name = f"{of.__name__}-tagged" if tag else of.__name__
    if name not in definitions:
        assert definition(of)
        definitions[name] = {}  # a class may contain itself
        definitions[name] = _object(of, definitions, tag)
    return {"$ref": f"#/$defs/{name}"}
