"""A skill is registered completely or not at all; each version is identified by its digest."""

import threading
from hashlib import sha256
from typing import Any

import pytest
from skill_samples import FILES, TEXT, count_entries, skill_text

import holdfast
from holdfast.features.skills import service as skills
from holdfast.features.skills.files import Draft
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import HoldfastError, Invalid


def test_a_registered_skill_is_complete(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, files=FILES, namespace="team")
    assert (made.registered, made.outcome, made.namespace, made.name, made.signed) == (
        True,
        "registered",
        "team",
        "deploy",
        True,
    )
    got = hold.skill_get(made.id)
    assert (got.body, got.current, got.signed, got.digest) == ("# Deploy", True, True, made.digest)
    assert [(file.path, file.kind) for file in got.resources] == [
        ("references/why.md", "reference"),
        ("scripts/run.sh", "script"),
    ]
    read = hold.skill_resource(made.id, "scripts/run.sh")
    assert (read.content, read.encoding, read.digest) == (
        "make deploy\n",
        "utf-8",
        sha256(b"make deploy\n").hexdigest(),
    )


def test_registering_the_same_skill_again_writes_nothing_and_returns_the_same_id(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=TEXT, files=FILES, namespace="team")
    before = count_entries(hold)
    again = hold.skill_register(inline_skill=TEXT, files=FILES[::-1], namespace="team")
    assert (again.id, again.registered, again.outcome) == (first.id, False, "unchanged")
    assert count_entries(hold) == before


def test_a_changed_text_is_a_new_version_and_the_old_one_stays_addressable(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=skill_text("One"), namespace="team")
    second = hold.skill_register(inline_skill=skill_text("Two"), namespace="team")
    assert (second.outcome, second.superseded_id) == ("superseded", first.id)
    old = hold.skill_get(first.id)
    assert (old.body, old.current, old.superseded_by) == ("One", False, second.id)
    assert hold.skill_get("team/deploy").id == second.id
    assert [one.id for one in hold.skill_list().skills] == [second.id]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"inline_skill": skill_text("x", more="metadata:\n  a: 1\n")},
            {"inline_skill": skill_text("x", more="metadata:\n  a: 2\n")},
        ),
        (
            {"inline_skill": skill_text("x", more="composes_with_reflections:\n  - namespace: a\n")},
            {"inline_skill": skill_text("x", more="composes_with_reflections:\n  - namespace: b\n")},
        ),
        (
            {"inline_skill": TEXT, "files": [{"path": "a", "content": "1"}, {"path": "b", "content": "2"}]},
            {"inline_skill": TEXT, "files": [{"path": "a", "content": "2"}, {"path": "b", "content": "1"}]},
        ),
        ({"inline_skill": skill_text("x"), "namespace": "a"}, {"inline_skill": skill_text("x"), "namespace": "b"}),
    ],
    ids=["metadata", "composition", "swapped files", "namespace"],
)
def test_any_difference_changes_the_digest(hold: holdfast.Holdfast, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert hold.skill_register(**one).digest != hold.skill_register(**other).digest


def test_an_earlier_version_registered_again_becomes_current_under_its_id(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=skill_text("One"), namespace="team")
    hold.skill_register(inline_skill=skill_text("Two"), namespace="team")
    again = hold.skill_register(inline_skill=skill_text("One"), namespace="team")
    assert (again.id, again.outcome) == (first.id, "restored")
    assert len(hold.skill_history("deploy").versions) == 2


def test_a_skill_is_stored_in_the_namespace_it_names(hold: holdfast.Holdfast) -> None:
    own = skill_text("x", more="namespace: team/ops\n")
    assert hold.skill_register(inline_skill=own).namespace == "team/ops"
    assert hold.skill_register(inline_skill=skill_text("x")).namespace == "global"
    with pytest.raises(Invalid, match=r"SKILL\.md has"):
        hold.skill_register(inline_skill=own, namespace="elsewhere")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"inline_skill": TEXT, "archive": "AAAA"},
        {"archive": "!"},
        {"archive": "AAAA", "files": FILES},
        {"inline_skill": "no head"},
        {"inline_skill": TEXT, "files": [{"path": "SKILL.md", "content": "x"}]},
        {"inline_skill": TEXT, "files": [{"path": "skill.md", "content": "x"}]},
        {"inline_skill": TEXT, "files": [{"path": "a", "content": "x"}, {"path": "A", "content": "x"}]},
        {"inline_skill": TEXT, "files": [{"path": "/etc/x", "content": "x"}]},
        {"inline_skill": TEXT, "files": [{"path": "C:\\x", "content": "x"}]},
        {"inline_skill": TEXT, "files": [{"path": "a", "content": "?", "encoding": "base64"}]},
        {"inline_skill": TEXT, "files": [{"path": f"f{n}", "content": ""} for n in range(256)]},
        {"inline_skill": TEXT, "files": [{"path": "a", "content": "x" * (10 << 20)}]},
        {"inline_skill": skill_text("x", name="Deploy App")},
        {"inline_skill": skill_text("x", more="namespace: a//b\n")},
    ],
)
def test_an_invalid_skill_leaves_nothing_behind(hold: holdfast.Holdfast, wrong: dict[str, Any]) -> None:
    before = count_entries(hold)
    with pytest.raises(Invalid):
        hold.skill_register(**wrong)
    assert (count_entries(hold), hold.skill_list().total) == (before, 0)
    assert hold.verify().intact


def test_an_interrupted_registration_leaves_the_previous_version(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=skill_text("One"), namespace="team")
    draft = Draft({"SKILL.md": skill_text("Two").encode(), "a.bin": bytes(200_000)})
    stop = threading.Event()
    progress = Progress(stop=stop)
    stop.set()
    with pytest.raises(HoldfastError):
        skills.register(hold.ctx.for_caller(hold.ctx.caller, progress), draft, "team")
    assert hold.skill_get("deploy").id == first.id
    assert len(hold.skill_history("deploy").versions) == 1
    assert hold.verify().intact


def test_concurrent_registrations_leave_one_current_version(hold: holdfast.Holdfast) -> None:
    barrier = threading.Barrier(4)
    made: list[str] = []

    def register(number: int) -> None:
        barrier.wait()
        made.append(hold.skill_register(inline_skill=skill_text(f"Body {number % 2}"), namespace="team").id)

    threads = [threading.Thread(target=register, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    past = hold.skill_history("team/deploy")
    assert (len(made), len(set(made)), len(past.versions)) == (4, 2, 2)
    assert [one.current for one in past.versions].count(True) == 1
    assert hold.skill_list().total == 1


def test_files_shared_by_versions_are_stored_once(hold: holdfast.Holdfast) -> None:
    draft = {"a.bin": bytes(range(256)) * 1000}
    for body in ("One", "Two"):
        skills.register(hold.ctx, Draft({"SKILL.md": skill_text(body).encode(), **draft}))
    with hold.ctx.reading() as session:
        kept = session.query_sql("select distinct digest from skill_piece", {})
    assert len(kept) == 3


def test_contents_are_stored_compressed_and_in_chunks(hold: holdfast.Holdfast) -> None:
    from random import Random

    noise, zeros = Random(1).randbytes(300_000), bytes(1 << 20)
    made = skills.register(hold.ctx, Draft({"SKILL.md": TEXT.encode(), "noise": noise, "zeros": zeros}))
    with hold.ctx.reading() as session:
        sizes = [len(bytes(row[0])) for row in session.query_sql("select content from skill_piece", {})]
        assert skills.read_files(session, made.entry.version) == {
            "SKILL.md": TEXT.encode(),
            "noise": noise,
            "zeros": zeros,
        }
    assert max(sizes) <= 64 << 10
    assert sum(sizes) < 310_000
