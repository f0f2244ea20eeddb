"""The page about missing hits explains every possible reason."""

import ast
import inspect
import re

from doc_pages import ROOT

from holdfast.features.recall import why_not

PAGE = ROOT / "docs" / "how-to" / "explain-recall.md"
NOT_OF_A_QUESTION = {"namespace", "under", "agent", "min_priority", "source_uri"}
"""Filters that other operations have: a question has none of them."""


def test_every_exclusion_reason_is_explained() -> None:
    codes = why_not._FILTER_MESSAGES.keys() - NOT_OF_A_QUESTION
    for node in ast.walk(ast.parse(inspect.getsource(why_not))):
        match node:
            case ast.Call(ast.Name("Reason"), [ast.Constant(str(code)), *_]):
                codes.add(code)
    table = [line.split("|")[1] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([a-z_]+)`", " ".join(table))) == codes
