"""Everything out, as one v1 envelope that loses nothing on its way in again."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ..domain import admit as door
from ..domain import envelope
from ..domain.caller import under as within
from ..domain.invalidation import Invalidation
from ..domain.moment import to_text
from ..storage import interactions, memories, skills
from ..storage.port import Session
from ..storage.records import (
    AGENT,
    ALIAS,
    GRANT,
    INTERACTION,
    INVALIDATION,
    LINK,
    POLICY,
    PRINCIPAL,
    STANDARD,
    Kind,
    memory_of,
)
from ..version import __version__
from .agents import notice_of
from .hold import Hold

PAGE = 500
Row = dict[str, Any]

_AROUND: tuple[tuple[str, Kind[Any], Callable[[Any], Row], Callable[[Any], set[str]]], ...] = (
    ("links", LINK, envelope.link_row, lambda link: {link.source, link.target}),
    ("entities", ALIAS, envelope.entity_row, lambda alias: {alias.entity}),
    ("grants", GRANT, envelope.grant_row, lambda grant: {grant.memory}),
)
"""What belongs to memories, and to which ones."""


def export(hold: Hold, session: Session, under: str | None = None) -> Row:
    """All that the caller's key reaches, private memories included; an unchanged store gives the same text again.

    History and keys are not in it: a backup has them.
    """
    whole = under is None and "*" in hold.caller.namespaces
    beside = Beside(session)
    rows = list(_memory_rows(hold, session, under))
    held = {row["id"] for row in rows}
    owners = {row["metadata"]["agent_id"] for row in rows}
    arrays = {
        name: [beside.added(name, one.id, row_of(one)) for one in _records(session, kind) if ends(one) <= held]
        for name, kind, row_of, ends in _AROUND
    }
    told = _invalidations(hold, session, held)
    agents = [agent for agent in _records(session, AGENT) if whole or agent.id in owners]
    notices = [notice_of(row) for row in _pages(session, "notice_all")] if whole else []
    return _sorted(
        {
            **(beside.top() if whole else {}),
            "schema_version": envelope.SCHEMA,
            "source": f"holdfast-v{__version__}",
            "exported_at": to_text(hold.now())[:-4] + "Z",
            "db_schema_version": envelope.DB_SCHEMA,
            **arrays,
            "invalidations": [beside.added("invalidations", one.id, envelope.invalidation_row(one)) for one in told],
            "memories": [row for row in rows if "archived_at" not in row],
            "archived": [row for row in rows if "archived_at" in row],
            "agents": [beside.added("agents", agent.id, envelope.agent_row(agent)) for agent in agents],
            "namespaces": _namespace_rows(hold, session, under, rows, beside),
            "notices": [beside.added("notices", notice.id, envelope.notice_row(notice)) for notice in notices],
            "policies": [
                beside.added("policies", policy.id, envelope.policy_row(policy))
                for policy in _records(session, POLICY)
                if hold.caller.reaches(policy.id) and (under is None or within(policy.id, under))
            ],
            "principals": [
                beside.added("principals", one.id, envelope.principal_row(one))
                for one in _records(session, PRINCIPAL)
                if whole
            ],
            "interactions": [
                beside.added("interactions", one.id, envelope.interaction_row(one))
                for one in _records(session, INTERACTION)
                if interactions.may_see(session, hold.caller, one) and (under is None or within(one.namespace, under))
            ],
            **_skills(hold, session, under, beside),
        }
    )


def simple(exported: Row) -> Row:
    """The shorter form: the live memories and the links among them."""
    held = {row["id"] for row in exported["memories"]}
    return {
        "count": len(held),
        "exported_at": exported["exported_at"],
        "links": [link for link in exported["links"] if {link["source_id"], link["target_id"]} <= held],
        "memories": exported["memories"],
    }


def _sorted(value: Row) -> Row:
    """Objects with their keys in order, at every depth."""
    return dict(msgspec.to_builtins(value, order="sorted"))


class Beside:
    """What other programs said beside what we know, by where they said it."""

    def __init__(self, session: Session) -> None:
        self._said: dict[str, Any] = {name: msgspec.json.decode(body) for name, body in session.rows("kept_all")}

    def added(self, array: str, id: str, row: Row) -> Row:
        """A row and what was said beside it."""
        return {**self._said.get(place(array, id), {}), **row}

    def top(self) -> Row:
        """Whole fields of an envelope that we do not know."""
        return {name[1:]: value for name, value in self._said.items() if name.startswith("/")}

    def ids(self, array: str) -> set[str]:
        return {name.partition("/")[2] for name in self._said if name.startswith(f"{array}/")}


def place(array: str, id: str) -> str:
    """Where what a row says beside is kept; a whole field of the envelope has no array."""
    return f"{array}/{id}"


def _memory_rows(hold: Hold, session: Session, under: str | None) -> Iterator[Row]:
    """The memories of every state but deleted, by id; the expired ones too, since an archive shows them."""
    parts, params = memories.reached(hold.caller)
    if under is not None:
        parts, params = [*parts, "memory.under"], params | {"under": door.namespace(under)}
    after, done = "", 0
    while page := session.assembled(
        ("memory_select", *parts, "transfer.page"), params | {"after": after, "limit": PAGE}
    ):
        uses = memories.uses(session, [row[0] for row in page])
        for row in page:
            yield envelope.memory_row(memory_of(row), uses.get(row[0], (0, 0)))
        after, done = page[-1][0], done + len(page)
        hold.progress(done, done, "exporting")


def _invalidations(hold: Hold, session: Session, held: set[str]) -> list[Invalidation]:
    """What exported memories were told, as far as what fell lies where the key reaches."""
    found = [one for one in _records(session, INVALIDATION) if one.dependent in held]
    if "*" in hold.caller.namespaces:
        return found
    parts, params = memories.reached(hold.caller)
    fallen = sorted({id for one in found for id in (one.invalidated, one.invalidating)})
    reached = {row[0] for row in session.assembled(("memory_ids", *parts, "memory.some"), params | {"ids": fallen})}
    return [one for one in found if {one.invalidated, one.invalidating} <= reached]


def _records(session: Session, kind: Kind[Any]) -> Iterator[Any]:
    """Every record of a kind that is not deleted, by id."""
    found = (kind.load(row) for row in _pages(session, f"{kind.name}_all"))
    return (record for record in found if record.state == "live")


def _pages(session: Session, statement: str) -> Iterator[Any]:
    after = ""
    while page := session.rows(statement, after=after, limit=PAGE):
        yield from page
        after = page[-1][0]


def _namespace_rows(hold: Hold, session: Session, under: str | None, rows: list[Row], beside: Beside) -> list[Row]:
    """Every namespace that holds a memory, has a standard, or was told of."""
    held = {row["id"] for row in rows}
    standards = {standard.id: standard for standard in _records(session, STANDARD) if standard.memory in held}
    told = {row["namespace"] for row in rows} | standards.keys()
    if under is None:
        told |= {name for name in beside.ids("namespaces") if hold.caller.reaches(name)}
    unsaid = {"parent_namespace": None, "updated_at": None}
    return [
        {**unsaid, **beside.added("namespaces", name, envelope.namespace_row(name, standards.get(name)))}
        for name in sorted(told)
    ]


def _skills(hold: Hold, session: Session, under: str | None, beside: Beside) -> dict[str, list[Row]]:
    """The skills in use, and every version of them with what its files say."""
    shown = list(skills.every(session, hold.caller, under))
    versions = {one.version.id: one.version for one in shown}
    there = {one.skill.id: one.skill for one in shown}
    said = {id: {file.path: skills.content(session, file) for file in one.files} for id, one in versions.items()}
    return {
        "skill_versions": [
            beside.added("skill_versions", id, envelope.skill_version_row(one, said[id]))
            for id, one in versions.items()
        ],
        "skills": [
            beside.added("skills", one.id, envelope.skill_row(one, versions[one.current].digest))
            for one in sorted(there.values(), key=lambda skill: skill.id)
        ],
    }
