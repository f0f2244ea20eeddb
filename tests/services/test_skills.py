"""Skills: versions named by what they say, one of which is in use."""

import threading
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

import holdfast
from holdfast.domain.caller import Caller
from holdfast.domain.errors import AmbiguousId, Conflict, Forbidden, HoldfastError, Invalid, NotFound, StoreDamaged
from holdfast.domain.moment import to_text
from holdfast.services import history, skills
from holdfast.services.hold import Progress
from holdfast.services.skill_files import Draft

HEAD = "---\nname: deploy\ndescription: How we deploy.\n---\n"
TEXT = HEAD + "# Deploy\n"
FILES = [{"path": "scripts/run.sh", "content": "make deploy\n"}, {"path": "references/why.md", "content": "Because.\n"}]


def text(body: str, name: str = "deploy", description: str = "How we deploy.", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"


def entries(hold: holdfast.Holdfast) -> int:
    return int(hold.verify().entries)


# Registering


def test_a_skill_is_there_whole_once_it_is_registered(hold: holdfast.Holdfast) -> None:
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


def test_registering_the_same_again_writes_nothing_and_gives_the_same_id(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=TEXT, files=FILES, namespace="team")
    before = entries(hold)
    again = hold.skill_register(inline_skill=TEXT, files=FILES[::-1], namespace="team")
    assert (again.id, again.registered, again.outcome) == (first.id, False, "unchanged")
    assert entries(hold) == before


def test_another_text_is_another_version_and_the_old_one_stays_addressable(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=text("One"), namespace="team")
    second = hold.skill_register(inline_skill=text("Two"), namespace="team")
    assert (second.outcome, second.superseded_id) == ("superseded", first.id)
    old = hold.skill_get(first.id)
    assert (old.body, old.current, old.superseded_by) == ("One", False, second.id)
    assert hold.skill_get("team/deploy").id == second.id
    assert [one.id for one in hold.skill_list().skills] == [second.id]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"inline_skill": text("x", more="metadata:\n  a: 1\n")},
            {"inline_skill": text("x", more="metadata:\n  a: 2\n")},
        ),
        (
            {"inline_skill": text("x", more="composes_with_reflections:\n  - namespace: a\n")},
            {"inline_skill": text("x", more="composes_with_reflections:\n  - namespace: b\n")},
        ),
        (
            {"inline_skill": TEXT, "files": [{"path": "a", "content": "1"}, {"path": "b", "content": "2"}]},
            {"inline_skill": TEXT, "files": [{"path": "a", "content": "2"}, {"path": "b", "content": "1"}]},
        ),
        ({"inline_skill": text("x"), "namespace": "a"}, {"inline_skill": text("x"), "namespace": "b"}),
    ],
    ids=["metadata", "composition", "swapped files", "namespace"],
)
def test_what_differs_in_anything_has_another_digest(
    hold: holdfast.Holdfast, one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert hold.skill_register(**one).digest != hold.skill_register(**other).digest


def test_an_earlier_version_registered_again_is_in_use_again_under_its_id(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=text("One"), namespace="team")
    hold.skill_register(inline_skill=text("Two"), namespace="team")
    again = hold.skill_register(inline_skill=text("One"), namespace="team")
    assert (again.id, again.outcome) == (first.id, "restored")
    assert len(hold.skill_history("deploy").versions) == 2


def test_a_skill_goes_where_it_says(hold: holdfast.Holdfast) -> None:
    own = text("x", more="namespace: team/ops\n")
    assert hold.skill_register(inline_skill=own).namespace == "team/ops"
    assert hold.skill_register(inline_skill=text("x")).namespace == "global"
    with pytest.raises(Invalid, match="says"):
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
        {"inline_skill": text("x", name="Deploy App")},
        {"inline_skill": text("x", more="namespace: a//b\n")},
    ],
)
def test_what_cannot_be_kept_leaves_nothing_behind(hold: holdfast.Holdfast, wrong: dict[str, Any]) -> None:
    before = entries(hold)
    with pytest.raises(Invalid):
        hold.skill_register(**wrong)
    assert (entries(hold), hold.skill_list().total) == (before, 0)
    assert hold.verify().intact


def test_a_register_that_breaks_off_leaves_the_version_before(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=text("One"), namespace="team")
    draft = Draft({"SKILL.md": text("Two").encode(), "a.bin": bytes(200_000)})
    stop = threading.Event()
    progress = Progress(stop=stop)
    stop.set()
    with pytest.raises(HoldfastError):
        skills.register(hold.hold.seen_by(hold.hold.caller, progress), draft, "team")
    assert hold.skill_get("deploy").id == first.id
    assert len(hold.skill_history("deploy").versions) == 1
    assert hold.verify().intact


def test_many_at_once_leave_one_version_in_use(hold: holdfast.Holdfast) -> None:
    barrier = threading.Barrier(4)
    made: list[str] = []

    def register(number: int) -> None:
        barrier.wait()
        made.append(hold.skill_register(inline_skill=text(f"Body {number % 2}"), namespace="team").id)

    threads = [threading.Thread(target=register, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    past = hold.skill_history("team/deploy")
    assert (len(made), len(set(made)), len(past.versions)) == (4, 2, 2)
    assert [one.current for one in past.versions].count(True) == 1
    assert hold.skill_list().total == 1


def test_files_that_versions_share_are_kept_once(hold: holdfast.Holdfast) -> None:
    draft = {"a.bin": bytes(range(256)) * 1000}
    for body in ("One", "Two"):
        skills.register(hold.hold, Draft({"SKILL.md": text(body).encode(), **draft}))
    with hold.hold.reading() as session:
        kept = session.ask("select distinct digest from skill_piece", {})
    assert len(kept) == 3


def test_contents_are_kept_compressed_and_in_pieces(hold: holdfast.Holdfast) -> None:
    from random import Random

    noise, zeros = Random(1).randbytes(300_000), bytes(1 << 20)
    made = skills.register(hold.hold, Draft({"SKILL.md": TEXT.encode(), "noise": noise, "zeros": zeros}))
    with hold.hold.reading() as session:
        sizes = [len(bytes(row[0])) for row in session.ask("select content from skill_piece", {})]
        assert skills.files_of(session, made.shown.version) == {
            "SKILL.md": TEXT.encode(),
            "noise": noise,
            "zeros": zeros,
        }
    assert max(sizes) <= 64 << 10
    assert sum(sizes) < 310_000


# Who may


def confined(seen_by: Callable[..., Any], *namespaces: str, right: str = "admin") -> Any:
    return seen_by("ai:other@here", namespaces=namespaces, right=right)


def test_registering_needs_a_key_that_reaches_the_namespace(
    timed: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    for asked in ({"namespace": "team"}, {"namespace": "team/x"}):
        confined(seen_by, "team").skill_register(inline_skill=text(str(asked)), **asked)
    with pytest.raises(Forbidden):
        confined(seen_by, "home").skill_register(inline_skill=TEXT, namespace="team")
    with pytest.raises(Forbidden):
        confined(seen_by, "home").skill_register(inline_skill=text("x", more="namespace: team\n"))
    with pytest.raises(Forbidden):
        confined(seen_by, "team", right="read").skill_register(inline_skill=TEXT, namespace="team")


def test_a_key_sees_the_skills_of_its_namespaces_alone(timed: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    hidden = timed.skill_register(inline_skill=TEXT, namespace="team")
    timed.skill_register(inline_skill=text("x", name="cook"), namespace="home")
    other = confined(seen_by, "home")
    assert [one.name for one in other.skill_list().skills] == ["cook"]
    assert (other.skill_list().total, other.skill_list(query="how we deploy").total) == (1, 1)
    for refused in (
        lambda: other.skill_get(hidden.id),
        lambda: other.skill_get("team/deploy"),
        lambda: other.skill_get("deploy"),
        lambda: other.skill_resource(hidden.id, "SKILL.md"),
        lambda: other.skill_export(hidden.id),
        lambda: other.skill_history(hidden.id),
        lambda: other.skill_rollback(hidden.id),
        lambda: other.skill_delete(hidden.id),
        lambda: other.skill_compositional_context(hidden.id),
    ):
        with pytest.raises(NotFound):
            refused()
    told = {change.kind for change in other.events(after=0, limit=100).events}
    assert all("team" not in str(change.memory) for change in other.events(after=0, limit=100).events)
    assert told == {"skill", "skill_version"}


def test_paths_are_for_those_at_the_machine(timed: holdfast.Holdfast, tmp_path: Path) -> None:
    remote = Caller("ai:other@here", source="http")
    made = timed.skill_register(inline_skill=TEXT)
    for name, asked in (
        ("skill_register", {"folder_path": str(tmp_path)}),
        ("skill_export", {"skill_id": made.id, "target_folder": str(tmp_path / "out")}),
    ):
        with pytest.raises(Invalid, match="paths are for"):
            timed.call(name, asked, caller=remote)
    assert not (tmp_path / "out").exists()


# Finding


def test_a_query_ranks_skills_by_what_they_are_about(hold: holdfast.Holdfast) -> None:
    for name, about in (
        ("release-notes", "Writes the notes of a release."),
        ("deploy", "Deploys the web application to production, and rolls it back."),
        ("cook", "Cooks soup for the whole team."),
    ):
        hold.skill_register(inline_skill=text("x", name=name, description=about))
    assert [one.name for one in hold.skill_list(query="rolling back a production deploy").skills] == ["deploy"]
    assert [one.name for one in hold.skill_list(query="RELEASES").skills] == ["release-notes"]
    found = hold.skill_list(query="nothing of the kind")
    assert (found.count, found.total) == (0, 3)
    assert [one.name for one in hold.skill_list().skills] == ["cook", "deploy", "release-notes"]


def test_a_list_is_of_a_namespace_and_what_lies_below(hold: holdfast.Holdfast) -> None:
    for namespace in ("team", "team/ops", "teams"):
        hold.skill_register(inline_skill=TEXT, namespace=namespace)
    assert {one.namespace for one in hold.skill_list(namespace="team").skills} == {"team", "team/ops"}
    assert hold.skill_list(namespace="team", limit=1).count == 1


def test_a_skill_is_found_by_id_by_its_beginning_and_by_name(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, namespace="team/ops")
    for id in (made.id, made.id[:10], "team/ops/deploy", "deploy"):
        assert hold.skill_get(id).id == made.id
    hold.skill_register(inline_skill=TEXT, namespace="home")
    with pytest.raises(AmbiguousId):
        hold.skill_get("deploy")
    with pytest.raises(NotFound):
        hold.skill_get("team/deploy")
    with pytest.raises(NotFound):
        hold.skill_resource(made.id, "scripts/none.sh")


# Back and away


def test_a_rollback_uses_the_version_before_again(timed: holdfast.Holdfast, clock: Any) -> None:
    ids = []
    for body in ("One", "Two", "Three"):
        ids.append(timed.skill_register(inline_skill=text(body)).id)
        clock.move(hours=1)
    turned = timed.skill_rollback("deploy")
    assert (turned.id, turned.before) == (ids[1], ids[2])
    assert timed.skill_rollback("deploy").id == ids[0]
    with pytest.raises(NotFound):
        timed.skill_rollback("deploy")
    assert timed.skill_rollback("deploy", version=ids[2]).id == ids[2]
    with pytest.raises(Conflict):
        timed.skill_rollback("deploy", version=ids[2])
    other = timed.skill_register(inline_skill=text("x", name="cook")).id
    with pytest.raises(Invalid):
        timed.skill_rollback("deploy", version=other)
    assert timed.skill_get("deploy").body == "Three"


def test_a_rollback_goes_to_what_was_in_use_before_not_to_what_was_made_before(hold: holdfast.Holdfast) -> None:
    one = hold.skill_register(inline_skill=text("One")).id
    two = hold.skill_register(inline_skill=text("Two")).id
    hold.skill_register(inline_skill=text("One"))
    assert hold.skill_rollback("deploy").id == two
    assert hold.skill_rollback("global/deploy").id == one
    with pytest.raises(NotFound, match="skill rollback VERSION_ID"):
        hold.skill_rollback("deploy")
    three = hold.skill_register(inline_skill=text("Three")).id
    hold.skill_rollback("deploy", version=two)
    assert hold.skill_rollback("deploy").id == three
    hold.skill_delete("deploy")
    hold.undo(change=entries(hold))
    assert hold.skill_rollback("deploy").id == one


def test_a_rollback_to_the_id_of_a_version_uses_that_version(hold: holdfast.Holdfast) -> None:
    ids = [hold.skill_register(inline_skill=text(body)).id for body in ("One", "Two", "Three")]
    turned = hold.skill_rollback(ids[0])
    assert (turned.id, turned.before) == (ids[0], ids[2])
    with pytest.raises(Conflict, match="`skill rollback global/deploy` goes back"):
        hold.skill_rollback(ids[0])
    assert hold.skill_get("deploy").body == "One"


def test_a_deleted_skill_is_in_no_list_and_its_history_stays(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, namespace="team")
    assert hold.skill_delete("deploy").deleted
    assert hold.skill_list().total == 0
    for id in (made.id, "team/deploy", "deploy"):
        with pytest.raises(NotFound):
            hold.skill_get(id)
    for id in (made.id, "team/deploy"):
        past = hold.skill_history(id)
        assert [change.op for change in past.changes] == ["delete", "register"]
        assert past.changes[0].state == "deleted"
    again = hold.skill_register(inline_skill=TEXT, namespace="team")
    assert (again.id, again.outcome) == (made.id, "restored")
    assert hold.skill_get("deploy").current


def test_what_became_of_a_skill_can_be_taken_back(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=text("One"))
    hold.skill_register(inline_skill=text("Two"))
    hold.undo(hold.skill_history("deploy").changes[0].change)
    assert hold.skill_get("deploy").id == first.id
    hold.skill_delete("deploy")
    hold.undo(hold.skill_history(first.id).changes[0].change)
    assert hold.skill_get("deploy").id == first.id


def test_a_version_itself_is_not_taken_back(hold: holdfast.Holdfast) -> None:
    hold.skill_register(inline_skill=TEXT)
    made = next(change for change in hold.events(after=0, limit=10).events if change.kind == "skill_version")
    with pytest.raises(Conflict):
        hold.undo(made.seq)


# Proof


class Undone(Exception):
    """Rolls a transaction back."""


def test_verify_finds_what_was_done_to_a_skill_behind_its_back(hold: holdfast.Holdfast) -> None:
    hold.skill_register(inline_skill=TEXT, files=FILES)
    assert hold.verify().intact
    edits = [
        "update skill_piece set content = (select max(content) from skill_piece)",
        "delete from skill_piece where digest = (select min(digest) from skill_piece)",
        "update skill_version set description = 'Does something else.'",
        "update skill_version set files = '[]'",
        "update skill_version set signature = replace(signature, substr(signature, 1, 2), 'ff')",
        "update skill set name = 'other'",
        "insert into skill_piece (digest, piece, content) select 'x', 0, content from skill_piece limit 1",
    ]
    for edit in edits:
        with suppress(Undone), hold.hold.store.writing() as session:
            session.tell(edit, [{}])
            assert history.verify(hold.hold, session), edit
            raise Undone
    assert hold.verify().intact


def test_a_file_that_is_not_what_was_kept_is_an_error(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, files=FILES)
    with hold.hold.store.writing() as session:
        session.tell("update skill_piece set content = (select max(content) from skill_piece)", [{}])
    with pytest.raises(StoreDamaged):
        hold.skill_export(made.id)


# Out again


def test_what_is_exported_is_what_was_registered(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    (folder / "assets").mkdir(parents=True)
    raw = (
        b'---\r\nname: deploy\r\ndescription: "Says \\"so\\": yes"   \r\nmetadata:\r\n  n: 007\r\n  b: \'yes\'\r\n'
        b"composes_with_reflections:\r\n  - {namespace: team, min_depth: 1}\r\n---\r\n\r\n  body \t\r\n"
    )
    (folder / "SKILL.md").write_bytes(raw)
    (folder / "assets" / "x.bin").write_bytes(bytes(range(256)))
    made = hold.skill_register(str(folder))
    out = tmp_path / "out" / "deploy"
    told = hold.skill_export(made.id, str(out))
    assert (out / "SKILL.md").read_bytes() == raw
    assert (out / "assets" / "x.bin").read_bytes() == bytes(range(256))
    assert (told.resources_exported, told.target_folder) == (1, str(out))
    assert hold.skill_register(str(out)).outcome == "unchanged"
    sent = {file.path: (file.content, file.encoding) for file in hold.skill_export(made.id).files}
    assert sent["SKILL.md"] == (raw.decode(), "utf-8")
    assert sent["assets/x.bin"][1] == "base64"


def test_an_export_replaces_an_older_export_and_nothing_else(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    hold.skill_register(inline_skill=text("One"), files=FILES)
    hold.skill_export("deploy", str(tmp_path / "deploy"))
    second = hold.skill_register(inline_skill=text("Two"))
    hold.skill_export("deploy", str(tmp_path / "deploy"))
    assert [place.name for place in (tmp_path / "deploy").iterdir()] == ["SKILL.md"]
    (tmp_path / "deploy" / "SKILL.md").write_text(text("Edited, not registered"))
    with pytest.raises(Conflict, match=r"'SKILL\.md', which is in no version"):
        hold.skill_export(second.id, str(tmp_path / "deploy"))
    assert "Edited" in (tmp_path / "deploy" / "SKILL.md").read_text()
    hold.skill_register(inline_skill=text("x", name="cook"))
    hold.skill_export("cook", str(tmp_path / "cook"))
    with pytest.raises(Conflict):
        hold.skill_export(second.id, str(tmp_path / "cook"))


def test_files_that_were_sent_can_be_sent_back(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(
        inline_skill=TEXT, files=[*FILES, {"path": "b", "content": "/w==", "encoding": "base64"}]
    )
    sent = hold.skill_export(made.id).files
    inline = next(file.content for file in sent if file.path == "SKILL.md")
    beside = [
        {"path": file.path, "content": file.content, "encoding": file.encoding}
        for file in sent
        if file.path != "SKILL.md"
    ]
    assert hold.skill_register(inline_skill=inline, files=beside).outcome == "unchanged"


# From a reflection


def observed(hold: Any, title: str, **more: Any) -> str:
    return str(hold.store(title=title, content=f"{title} happened.", namespace="team", tier="long", **more).id)


def reflected(hold: Any, sources: list[str], title: str = "We deploy too late", **more: Any) -> str:
    return str(hold.reflect(source_ids=sources, title=title, content="Deploy before noon.", tier="long", **more).id)


def test_a_reflection_becomes_a_skill_with_its_sources(hold: holdfast.Holdfast) -> None:
    sources = sorted(observed(hold, title) for title in ("A late deploy", "Another late deploy"))
    reflection = reflected(hold, sources)
    made = hold.skill_promote_from_reflection(
        reflection, "deploy-early", 'Say "when" --- and how: yes', parameters_schema={"type": "object"}
    )
    assert (made.promoted, made.namespace, made.sources_attached, made.sources_left_out) == (True, "team", 2, 0)
    got = hold.skill_get(made.skill_id)
    assert got.description == 'Say "when" --- and how: yes'
    assert got.frontmatter["metadata"] == {"derived_from_reflection_id": reflection, "original_reflection_depth": "1"}
    assert "Deploy before noon." in got.body
    assert '{"type":"object"}' in got.body
    assert "happened." in hold.skill_resource(made.skill_id, "references/source_1.md").content
    assert not hold.skill_promote_from_reflection(
        reflection, "deploy-early", 'Say "when" --- and how: yes', parameters_schema={"type": "object"}
    ).promoted


def test_a_promoted_skill_is_valid_everywhere(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    from skills_ref import validate

    reflection = reflected(hold, [observed(hold, "Seen --- once")])
    made = hold.skill_promote_from_reflection(reflection, "early", "a --- b: 'c' \"d\" # e\\ \u2028 ü")
    hold.skill_export(made.skill_id, str(tmp_path / "early"))
    assert validate(tmp_path / "early") == []


def test_only_a_reflection_that_is_deep_enough_becomes_a_skill(hold: holdfast.Holdfast) -> None:
    source = observed(hold, "A late deploy")
    shallow = reflected(hold, [source])
    hold.policy_set(namespace="team", skill_promotion_min_depth=2)
    with pytest.raises(Conflict, match="depth 2"):
        hold.skill_promote_from_reflection(shallow, "early", "How.")
    deep = reflected(hold, [shallow], "Always too late")
    assert hold.skill_promote_from_reflection(deep, "early", "How.").original_reflection_depth == 2
    with pytest.raises(Invalid, match="no reflection"):
        hold.skill_promote_from_reflection(source, "early", "How.")
    with pytest.raises(Invalid, match="name"):
        hold.skill_promote_from_reflection(deep, "Too Early", "How.")


def test_what_is_private_becomes_no_part_of_a_skill(hold: holdfast.Holdfast) -> None:
    secret = observed(hold, "A secret", scope="private")
    shared = observed(hold, "A late deploy")
    with pytest.raises(Forbidden):
        hold.skill_promote_from_reflection(reflected(hold, [secret], "Mine", scope="private"), "early", "How.")
    made = hold.skill_promote_from_reflection(
        reflected(hold, [secret, shared], "Ours", scope="collective"), "early", "How."
    )
    assert (made.sources_attached, made.sources_left_out) == (1, 1)
    whole = hold.skill_export(made.skill_id)
    assert all("secret" not in str(file.content) for file in whole.files)


def fell(hold: Any, clock: Any, how: str, reflection: str, source: str) -> str:
    """Let a reflection fall; the reason that is given then."""
    if how == "superseded":
        newer = reflected(hold, [observed(hold, "Newer")], "It is fine now")
        hold.link(source_id=newer, target_id=reflection, relation="supersedes")
    elif how == "stale":
        hold.link(source_id=observed(hold, "What really was"), target_id=source, relation="supersedes")
    elif how == "ended":
        hold.update(id=reflection, valid_until=to_text(clock()))
    else:
        hold.delete(id=reflection)
    clock.move(hours=1)
    return how


@pytest.mark.parametrize("how", ["superseded", "stale", "ended"])
def test_a_reflection_that_does_not_hold_becomes_no_skill(timed: holdfast.Holdfast, clock: Any, how: str) -> None:
    source = observed(timed, "A late deploy")
    reflection = reflected(timed, [source])
    fell(timed, clock, how, reflection, source)
    with pytest.raises(Conflict, match=rf"does not hold now \({how}\)"):
        timed.skill_promote_from_reflection(reflection, "early", "How.")
    assert timed.skill_list().total == 0


@pytest.mark.parametrize("how", ["superseded", "stale", "ended", "gone"])
def test_a_skill_says_that_the_reflection_it_was_made_from_fell(timed: holdfast.Holdfast, clock: Any, how: str) -> None:
    source = observed(timed, "A late deploy")
    reflection = reflected(timed, [source])
    id = timed.skill_promote_from_reflection(reflection, "early", "How.").skill_id

    def told() -> list[Any]:
        return [
            timed.skill_get(id).stale,
            timed.skill_compositional_context(id).stale,
            timed.skill_list().skills[0].stale,
        ]

    assert told() == [UNSET] * 3
    fell(timed, clock, how, reflection, source)
    assert [(one.reason, one.reflection_id) for one in told()] == [(how, reflection)] * 3


def test_a_skill_tells_nothing_of_a_reflection_that_is_not_seen(
    timed: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    there = reflected(timed, [observed(timed, "A late deploy")])
    confined = seen_by("ai:stranger@here", namespaces=("home",))
    for number, reflection in enumerate((there, "0" * 32)):
        more = f"metadata:\n  derived_from_reflection_id: '{reflection}'\n"
        made = confined.skill_register(inline_skill=text("x", name=f"probe-{number}", more=more), namespace="home")
        told = confined.skill_get(made.id).stale
        assert (told.reason, told.reflection_id) == ("gone", UNSET)


# Moving


def exported(hold: holdfast.Holdfast, **asked: Any) -> dict[str, Any]:
    return dict(hold.export(**asked))


def test_an_export_takes_skills_along_without_loss(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    hold.skill_register(inline_skill=text("One"), namespace="team")
    made = hold.skill_register(
        inline_skill=text("Two", more="composes_with_reflections:\n  - namespace: team\n"),
        files=[*FILES, {"path": "b", "content": "/w==", "encoding": "base64"}],
        namespace="team",
    )
    hold.skill_register(inline_skill=text("x", name="gone"))
    hold.skill_delete("gone")
    whole = exported(hold)
    with holdfast.open(str(tmp_path / "other.db"), agent_id="ai:other@there") as other:
        taken = other.call("import", {"envelope": whole})
        assert (taken.rejected, taken.arrays["skill_versions"].imported, taken.arrays["skills"].imported) == (0, 2, 1)
        assert other.skill_export(made.id) == hold.skill_export(made.id)
        assert [one.id for one in other.skill_history("deploy").versions] == [
            one.id for one in hold.skill_history("deploy").versions
        ]
        again = other.call("import", {"envelope": whole})
        assert (again.rejected, again.arrays["skill_versions"].unchanged, again.arrays["skills"].unchanged) == (0, 2, 1)
        back = exported(other)
        assert {name: back[name] for name in ("skills", "skill_versions")} == {
            name: whole[name] for name in ("skills", "skill_versions")
        }
        assert other.verify().intact
        assert not other.skill_get("deploy").signed


def test_an_export_of_a_namespace_takes_its_skills_alone(hold: holdfast.Holdfast) -> None:
    for namespace in ("team", "team/ops", "home"):
        hold.skill_register(inline_skill=TEXT, namespace=namespace)
    assert {row["namespace"] for row in exported(hold, namespace="team")["skills"]} == {"team", "team/ops"}


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "0" * 64},
        {"files": [{"path": "SKILL.md", "content": TEXT.replace("How", "Why")}]},
        {"files": [{"path": "SKILL.md", "content": TEXT}, {"path": "../x", "content": ""}]},
        {"files": []},
        {"name": "other"},
        {"namespace": "elsewhere"},
        {"signature": "0" * 128},
    ],
    ids=["digest", "content", "path", "no files", "name", "namespace", "signature"],
)
def test_a_skill_that_is_not_what_it_says_is_not_taken_in(hold: holdfast.Holdfast, change: dict[str, Any]) -> None:
    hold.skill_register(inline_skill=TEXT, namespace="team")
    whole = exported(hold)
    hold.skill_delete("deploy")
    whole["skill_versions"] = [{**whole["skill_versions"][0], **change}]
    whole["skills"] = []
    before = entries(hold)
    assert hold.call("import", {"envelope": whole}).rejected == 1
    assert entries(hold) == before
    assert hold.verify().intact


def test_a_confined_key_imports_no_skill_elsewhere(timed: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    timed.skill_register(inline_skill=TEXT, namespace="team")
    whole = exported(timed)
    taken = getattr(confined(seen_by, "home"), "import")(envelope=whole)
    assert [fault.code for fault in taken.errors if fault.array.startswith("skill")] == ["FORBIDDEN", "FORBIDDEN"]


def test_a_backup_brings_a_skill_back(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, files=FILES)
    before = hold.skill_export(made.id)
    copy = hold.backup()
    hold.skill_register(inline_skill=text("Two"))
    hold.restore(**{"from": copy.snapshot})
    assert hold.skill_export("deploy") == before
    assert hold.verify().intact


def test_doctor_counts_skills(hold: holdfast.Holdfast) -> None:
    hold.skill_register(inline_skill=TEXT)
    counts = next(section.facts for section in hold.doctor().sections if section.name == "counts")
    assert counts["skills"] == 1


# For good


def test_a_purge_erases_what_a_skill_said_out_of_its_history_too(hold: holdfast.Holdfast) -> None:
    secret = {"path": "a.txt", "content": "hunter2"}
    made = hold.skill_register(inline_skill=text("Hunter2"), files=[secret, FILES[0]])
    hold.skill_register(inline_skill=text("Two", description="hunter2"), files=[secret])
    kept = hold.skill_register(inline_skill=text("x", name="other"), files=[FILES[0]])
    assert hold.skill_delete("deploy", purge=True).purged
    with hold.hold.reading() as session:
        rows = [str(session.ask(f"select * from {table}", {})) for table in ("journal", "skill_version", "skill")]
        digests = {row[0] for row in session.ask("select digest from skill_piece", {})}
    assert "unter2" not in "".join(rows)
    assert sha256(b"hunter2").hexdigest() not in digests
    assert hold.skill_resource(kept.id, "scripts/run.sh").content == "make deploy\n"
    assert {one.description for one in hold.skill_history("global/deploy").versions} == {"purged"}
    assert hold.verify().intact
    again = hold.skill_register(inline_skill=text("Hunter2"), files=[secret, FILES[0]])
    assert (again.id, again.outcome) == (made.id, "registered")
    got = hold.skill_get("deploy")
    assert (got.body, got.signed) == ("Hunter2", True)
    assert hold.verify().intact


def test_a_purged_version_cannot_be_used_again(timed: holdfast.Holdfast, clock: Any) -> None:
    old = timed.skill_register(inline_skill=text("One"))
    timed.skill_delete(old.id, purge=True)
    clock.move(hours=1)
    timed.skill_register(inline_skill=text("Two"))
    with pytest.raises(NotFound):
        timed.skill_get(old.id)
    with pytest.raises(NotFound):
        timed.skill_rollback("deploy")
    with pytest.raises(NotFound):
        timed.skill_rollback("deploy", version=old.id)
    assert [row["namespace"] for row in exported(timed)["skill_versions"]] == ["global"]
    assert timed.verify().intact


def test_a_purged_skill_comes_back_whole_by_an_import(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, files=FILES)
    before, whole = hold.skill_export(made.id), exported(hold)
    hold.skill_delete("deploy", purge=True)
    undone = hold.skill_history("global/deploy").changes[0].change
    hold.undo(undone)
    assert hold.skill_list().total == 0
    assert hold.call("import", {"envelope": whole}).rejected == 0
    assert hold.skill_export("deploy") == before
    assert hold.verify().intact
