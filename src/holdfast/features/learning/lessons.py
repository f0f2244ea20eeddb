"""Add lessons and record outcomes. Outcomes change the confidence of lessons and propose new ones."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.learning import lesson as rules
from holdfast.features.learning import store as outcomes
from holdfast.features.learning.lesson import Repeated, Score
from holdfast.features.learning.store import Outcome, Which
from holdfast.features.memories import store as memories
from holdfast.features.memories.lifecycle import put_away
from holdfast.features.memories.store import Filter
from holdfast.features.memories.store_memory import must_change, put
from holdfast.features.memories.update_memory import keep
from holdfast.features.people.principal import admit_name
from holdfast.features.people.store import known_as
from holdfast.kernel.caller import under
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY, to_text

MOST_READ = 1000
WEAKEST = "weaker than the other lessons of its domain"
"""Archive reason of an evicted lesson."""
LOOKED_DAYS = 90


class Learned(NamedTuple):
    """A lesson that was added or confirmed, and the lessons it evicted."""

    memory: Memory
    created: bool
    archived: list[Memory]


class Told(NamedTuple):
    """A recorded outcome, the lesson it changed, and the lesson that it and similar outcomes propose."""

    outcome: Outcome
    lesson: Memory | None
    proposed: Repeated | None


class Place(NamedTuple):
    """Principal, namespace and domain that a lesson belongs to."""

    principal: str
    namespace: str
    domain: str


def teach(hold: Hold, place: Place, rule: str, evidence: tuple[str, ...] = ()) -> Learned:
    """Add a lesson, or strengthen the existing one that states the same rule."""
    with hold.writing() as write:
        there = _lessons(hold, write.session, place)
        existing = next((lesson for lesson in there if rules.same_rule(lesson.content, rule)), None)
        if existing is not None:
            lesson = _restated(hold, write, existing, rule, max(1, len(evidence)))
            created, archived = False, []
        else:
            lesson = _new(hold, write, place, rule, max(1, len(evidence)))
            created = True
            archived = [put_away(write, one, WEAKEST, "archive") for one in rules.weakest([*there, lesson], lesson.id)]
        outcomes.learned(write.session, evidence, lesson.id)
    return Learned(lesson, created, archived)


def _new(hold: Hold, write: Transaction, place: Place, rule: str, times: int) -> Memory:
    evidence = rules.Evidence(positive=times)
    draft = Draft(
        title=rules.title_of(place.domain, rule),
        content=rule,
        namespace=place.namespace,
        kind="lesson",
        tier="long",
        confidence=evidence.confidence,
        source=hold.caller.source,
        metadata={"principal": place.principal, "domain": place.domain, "occurrences": 1, **evidence._asdict()},
    )
    return put(hold, write, draft, "version", force=True).memory


def _restated(hold: Hold, write: Transaction, known: Memory, rule: str, times: int) -> Memory:
    """Add evidence to a lesson; a new wording is kept with its author."""
    must_change(hold, write, known)
    evidence = rules.evidence_of(known.metadata)
    evidence = evidence._replace(positive=evidence.positive + times)
    metadata = {**known.metadata, **evidence._asdict(), "occurrences": int(known.metadata.get("occurrences", 1)) + 1}
    if rule != known.content:
        wording = {"rule": rule, "agent_id": hold.caller.agent, "at": to_text(write.now)}
        metadata["said"] = [*known.metadata.get("said", []), wording][-rules.MOST_SAID :]
    return keep(hold, write, known, replace(known, metadata=metadata, confidence=evidence.confidence), "lesson")


def tell(hold: Hold, place: Place, score: Score, what: str, source: str, lesson: str | None) -> Told:
    """Record an outcome. It counts for the named lesson, or for the one that states the same rule."""
    with hold.writing() as write:
        outcome = Outcome(
            id=hold.new_id(),
            at=write.now,
            principal=place.principal,
            agent=hold.caller.agent,
            namespace=place.namespace,
            domain=place.domain,
            score=score,
            what=what,
            source=source,
            lesson=None,
        )
        borne = _borne_on(hold, write, place, what, lesson)
        if borne is not None:
            borne = _weighed(hold, write, borne, score)
            outcome = outcome._replace(lesson=borne.id)
        outcomes.add(write.session, outcome)
        proposed = None if borne is not None else _proposed(hold, write.session, place, outcome)
    return Told(outcome, borne, proposed)


def _borne_on(hold: Hold, write: Transaction, place: Place, what: str, lesson: str | None) -> Memory | None:
    if lesson is not None:
        memory = memories.resolve(write.session, hold.caller, lesson, write.now)
        if memory.kind != "lesson":
            raise NotFound(f"{lesson!r} is not a lesson.")
        return memory
    there = _lessons(hold, write.session, place)
    return next((one for one in there if rules.same_rule(one.content, what)), None)


def _weighed(hold: Hold, write: Transaction, lesson: Memory, score: Score) -> Memory:
    if not score:
        return lesson
    must_change(hold, write, lesson)
    evidence = rules.evidence_of(lesson.metadata).after(score)
    metadata = {**lesson.metadata, **evidence._asdict()}
    return keep(hold, write, lesson, replace(lesson, metadata=metadata, confidence=evidence.confidence), "outcome")


def _proposed(hold: Hold, session: Session, place: Place, last: Outcome) -> Repeated | None:
    """Find the lesson that this outcome and similar ones propose."""
    which = Which((place.principal,), place.namespace, place.domain, last.at - LOOKED_DAYS * DAY, unlearned=True)
    groups = rules.repeated(_plain(outcome) for outcome in outcomes.select(session, hold.caller, which, MOST_READ))
    return next((group for group in groups if last.id in group.outcomes), None)


def _plain(outcome: Outcome) -> tuple[str, str, Score, str]:
    return outcome.id, outcome.domain, outcome.score, outcome.what


def proposals(hold: Hold, which: Which) -> list[Repeated]:
    """List lessons that repeated outcomes propose and no lesson covers yet."""
    since = hold.now() - LOOKED_DAYS * DAY
    with hold.reading() as session:
        found = outcomes.select(session, hold.caller, which._replace(unlearned=True, since=since), MOST_READ)
    return rules.repeated(map(_plain, found))


def history(hold: Hold, which: Which, limit: int) -> list[Outcome]:
    with hold.reading() as session:
        return outcomes.select(session, hold.caller, which, limit)


def learned(hold: Hold, namespace: str | None, domain: str | None, principal: str | None, limit: int) -> list[Memory]:
    """List lessons of a namespace, then of its parents, by confidence. Without a namespace: of all of them."""
    with hold.reading() as session:
        which = Filter(kinds=("lesson",), namespaces=_layers(hold, namespace) if namespace else ())
        found = memories.select(session, hold.caller, which, hold.now(), limit=MOST_READ)
        names = known_as(session, admit_name(principal)) if principal is not None else None
    fit = [
        lesson
        for lesson in found
        if (domain is None or lesson.metadata.get("domain") == domain)
        and (names is None or lesson.metadata.get("principal") in names)
    ]
    places = which.namespaces or tuple(sorted({lesson.namespace for lesson in fit}))
    ordered = (
        rules.ranked(fit, places) if namespace else sorted(fit, key=lambda one: (-one.confidence, -one.updated_at))
    )
    return ordered[:limit]


def _layers(hold: Hold, namespace: str) -> tuple[str, ...]:
    """List a namespace, its parents, and the default namespace."""
    segments = namespace.split("/")
    above = ["/".join(segments[:depth]) for depth in range(len(segments), 0, -1)]
    return tuple(dict.fromkeys([*above, hold.namespace]))


def _lessons(hold: Hold, session: Session, place: Place) -> list[Memory]:
    """List the live lessons of one domain, namespace and principal."""
    which = Filter(kinds=("lesson",), namespace=place.namespace)
    found = memories.select(session, hold.caller, which, hold.now(), limit=MOST_READ)
    names = known_as(session, place.principal)
    mine: list[Memory] = []
    for lesson in found:
        about: dict[str, Any] = lesson.metadata
        if about.get("domain") == place.domain and about.get("principal") in names:
            mine.append(lesson)
    return mine


def place(hold: Hold, principal: str | None, namespace: str | None, domain: str) -> Place:
    """Build the scope of a lesson. Raises for namespaces of people."""
    where = namespace or hold.namespace
    if under(where, "people"):
        raise Invalid(
            "namespace: namespaces under `people` hold facts about people; choose a project namespace",
            fields=["namespace"],
        )
    return Place(admit_name(principal or hold.caller.agent), where, domain)
