"""A memory without a tier gets the configured one on every surface, and the schemas document it."""

from pathlib import Path
from typing import Any

import pytest
from four_surfaces import surface

from holdfast.kernel.registry.operation import SURFACES
from holdfast.operations import REGISTRY, Operation
from holdfast.surfaces.cli.operation_command import describe
from holdfast.surfaces.http import openapi
from holdfast.surfaces.mcp.schema import input_schema

ORDER = ["short", "mid", "long"]
SAID = "short: 6 hours, mid: 7 days, long: forever. [default: setting default_tier (long)]"


@pytest.mark.parametrize("which", SURFACES)
def test_a_memory_without_a_tier_is_long_term(which: str, tmp_path: Path) -> None:
    with surface(which, tmp_path / "new") as opened:
        stored = opened.ask("store", {"title": "Plan", "content": "first"}).answer
    assert (stored["tier"], stored.get("expires_at")) == ("long", None)


@pytest.mark.parametrize("which", SURFACES)
def test_the_setting_is_the_tier_of_a_memory_without_one(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DEFAULT_TIER", "mid")
    with surface(which, tmp_path / "new") as opened:
        stored = opened.ask("store", {"title": "Plan", "content": "first"}).answer
    assert stored["tier"] == "mid"
    assert stored["expires_at"] is not None


def with_tier() -> dict[str, Operation]:
    return {operation.name: operation for operation in REGISTRY if "tier" in operation.request.__struct_fields__}


def test_an_operation_that_stores_documents_its_default_tier() -> None:
    types = {name: {field.name: field for field in found.fields}["tier"] for name, found in with_tier().items()}
    assert {name for name, field in types.items() if describe(field.type) == SAID} == {
        "store",
        "reflect",
        "capture_turn",
        "recover",
    }
    assert {name for name, field in types.items() if field.default not in (None, "long")} == set()


def test_the_schemas_name_the_tiers_in_the_order_of_their_lifetimes() -> None:
    for name, operation in with_tier().items():
        if "mcp" in operation.surfaces:
            assert input_schema(operation)["properties"]["tier"]["enum"] == ORDER, name
    described = openapi.build_document(REGISTRY)["components"]["schemas"]
    assert enum_of(described["Store"]["properties"]["tier"]) == ORDER
    assert enum_of(described["MineRequest"]["properties"]["tier"]) == ORDER
    assert described["CaptureTurn"]["properties"]["tier"]["anyOf"][0]["description"] == SAID


def enum_of(field: dict[str, Any]) -> Any:
    return next(one["enum"] for one in (field, *field.get("anyOf", ())) if "enum" in one)
