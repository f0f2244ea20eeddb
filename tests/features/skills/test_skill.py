"""The digest that identifies a skill version."""

import pytest

from holdfast.features.skills.model import build_file, classify_file, compute_digest, version_id

HEAD = {"name": "deploy", "description": "How we deploy.", "metadata": {"level": 2}}
FILES = [build_file("SKILL.md", b"a"), build_file("scripts/run.sh", b"b"), build_file("references/x.md", b"c")]


def test_the_order_of_files_and_fields_does_not_change_the_digest() -> None:
    assert compute_digest("team", HEAD, FILES) == compute_digest("team", dict(reversed(HEAD.items())), FILES[::-1])


@pytest.mark.parametrize(
    ("namespace", "head", "files"),
    [
        ("other", HEAD, FILES),
        ("team", HEAD | {"metadata": {"level": 3}}, FILES),
        ("team", HEAD | {"composes_with_reflections": [{"namespace": "team"}]}, FILES),
        ("team", HEAD, FILES[:2]),
        ("team", HEAD, [FILES[0], build_file("scripts/run.sh", b"c"), build_file("references/x.md", b"b")]),
        ("team", HEAD, [FILES[0], build_file("scripts/go.sh", b"b"), FILES[2]]),
    ],
    ids=["namespace", "metadata", "composition", "a file less", "contents swapped", "a file renamed"],
)
def test_a_digest_covers_the_manifest_and_every_file_under_its_path(
    namespace: str, head: dict[str, object], files: list[object]
) -> None:
    assert compute_digest(namespace, head, files) != compute_digest("team", HEAD, FILES)  # type: ignore[arg-type]


def test_the_same_content_has_the_same_id_on_every_node() -> None:
    assert version_id(compute_digest("team", HEAD, FILES)) == version_id(compute_digest("team", HEAD, FILES))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("SKILL.md", "manifest"),
        ("scripts/run", "script"),
        ("tools/run.py", "script"),
        ("references/a.md", "reference"),
        ("reference/a.md", "reference"),
        ("references.md", "asset"),
        ("assets/logo.png", "asset"),
    ],
)
def test_a_file_is_classified_by_its_path(path: str, kind: str) -> None:
    assert classify_file(path) == kind
