"""Every error a caller can meet.

    HoldfastError
    ├── Invalid              the request itself is wrong
    │   ├── AmbiguousId      an id prefix that fits several memories
    │   ├── FilterRequired   a bulk change that names nothing
    │   ├── DepthMismatch    a reflection is not as deep as its caller says
    │   └── SecretRefused    a key or a password where none may be kept
    ├── NotFound             no such record, or none that the caller may see
    │   ├── Folded           of a time of which only the outcome is kept
    │   └── StoreNotFound    no store at that path or URL
    ├── Conflict             the store holds something that stands against it
    │   ├── TitleTaken       (namespace, title) is held by another memory
    │   ├── VersionConflict  the expected version is not the stored one
    │   ├── ChangedSince     what an undo would restore was changed again
    │   ├── DepthExceeded    conclusions on conclusions, more than the namespace allows
    │   ├── CycleDetected    a memory would stand on itself
    │   ├── AlreadyAtomised  a memory was cut into atoms before
    │   ├── SourceTooSmall   a memory makes no two atoms
    │   ├── CuratorBusy      another curator is at work
    │   └── LeaseLost        somebody else has the task by now, or nobody
    ├── Unauthenticated      no key, or a wrong one
    ├── Forbidden            the key or the agent may not do this
    │   ├── Unconfirmed      an irreversible command without its confirmation
    │   ├── ApprovalRequired somebody else has to agree first
    │   ├── HookDenied       a lifecycle hook refuses it
    │   └── HookAsks         a lifecycle hook wants a person to agree first
    ├── BudgetExceeded       more than may be spent of a model
    ├── Misaddressed         Host or Origin name another site
    ├── NotAllowed           the path is there, the method is not
    ├── WrongMediaType       a body that does not say that it is JSON
    ├── TooLarge             a body over the limit
    ├── Cancelled            the caller gave up; nothing was written
    │   └── TimedOut         the time limit passed; nothing was written
    ├── Misconfigured        a setting that cannot be used
    ├── EmbedderFailed       a vector could not be made of a text
    ├── ModelFailed          a model gave no answer that can be used
    ├── PeerFailed           another store gave no answer that can be used
    ├── FileRefused          a file of another program cannot be changed safely
    │   ├── FileMalformed    it is not what that program would read
    │   └── FileUnsafe       others could change it too
    ├── QuorumNotMet         kept here, but too few other stores have it yet
    └── StoreError           the store cannot do it now
        ├── StoreBusy        another writer held the store too long
        ├── StoreFull        no space left; nothing was written
        ├── StoreUnreachable the file, directory or database cannot be opened
        ├── OutcomeUnknown   the connection broke while a change was being committed
        ├── NotAStore        the file is something else
        ├── NewerStore       written by a later release
        └── StoreDamaged     the file is corrupt or was altered

Each class has one stable `code`; its docstring is the default message. Where `retryable` is true nothing was
written and the same request may succeed later, with nothing changed.
"""

from typing import Any, ClassVar


class HoldfastError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "ERROR"
    retryable: bool = False

    def __init__(self, message: str | None = None, *, retryable: bool | None = None, **details: Any) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.details = details
        if retryable is not None:
            self.retryable = retryable
        super().__init__(self.message)

    def body(self) -> dict[str, Any]:
        """The one JSON shape of an error, the same on every surface."""
        again = {"retryable": True} if self.retryable else {}
        return {"error": self.message, "code": self.code, **again, **self.details}


class Invalid(HoldfastError):
    """The request is not valid."""

    code = "VALIDATION_FAILED"


class AmbiguousId(Invalid):
    """Several memories have an id that begins so: give more of it."""

    code = "AMBIGUOUS_ID_PREFIX"


class FilterRequired(Invalid):
    """Name at least one filter: without one this would touch every memory."""

    code = "FILTER_REQUIRED"


class DepthMismatch(Invalid):
    """The reflection is not as deep as you say: leave depth out, or state what follows from its sources."""

    code = "CALLER_DEPTH_MISMATCH"


class SecretRefused(Invalid):
    """A secret stands in what is to be kept, and this namespace keeps none: take it out."""

    code = "SECRET_REFUSED"


class NotFound(HoldfastError):
    """There is no such record."""

    code = "NOT_FOUND"


class Folded(NotFound):
    """What was then was folded by compact: only what came of it is kept."""

    code = "FOLDED"


class StoreNotFound(NotFound):
    """There is no store at this path or URL; nothing was made."""

    code = "STORE_NOT_FOUND"


class Conflict(HoldfastError):
    """The store holds something that stands against this."""

    code = "CONFLICT"


class TitleTaken(Conflict):
    """Another memory has this title in this namespace."""

    code = "TITLE_TAKEN"


class VersionConflict(Conflict):
    """The memory was changed since you read it: read it again and repeat your change."""

    code = "VERSION_CONFLICT"


class ChangedSince(Conflict):
    """What this undo would restore was changed again later: undo the later change first."""

    code = "CHANGED_SINCE"


class DepthExceeded(Conflict):
    """This would be deeper than the namespace allows: reflect on what lies lower, or raise max_reflection_depth."""

    code = "REFLECTION_DEPTH_EXCEEDED"


class CycleDetected(Conflict):
    """A memory cannot stand on itself."""

    code = "REFLECTION_CYCLE_DETECTED"


class AlreadyAtomised(Conflict):
    """The memory was cut into atoms before: repeat it with force to cut it anew."""

    code = "ALREADY_ATOMISED"


class SourceTooSmall(Conflict):
    """The memory makes no two atoms of this size: it is one already, or ask for smaller ones."""

    code = "SOURCE_TOO_SMALL"


class CuratorBusy(Conflict):
    """Another curator is at work in this store: try again when it is done."""

    code = "CURATOR_BUSY"


class LeaseLost(Conflict):
    """You no longer hold this task: your time was over, and what you did of it does not count."""

    code = "LEASE_LOST"


class Unauthenticated(HoldfastError):
    """A valid key is needed: send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`."""

    code = "UNAUTHENTICATED"


class Forbidden(HoldfastError):
    """This key or agent may not do that."""

    code = "FORBIDDEN"


class Unconfirmed(Forbidden):
    """This cannot be brought back: repeat the command with --yes."""

    code = "CONFIRMATION_REQUIRED"


class ApprovalRequired(Forbidden):
    """Somebody else has to agree to this first."""

    code = "APPROVAL_REQUIRED"


class HookDenied(Forbidden):
    """A hook of this machine refuses this."""

    code = "HOOK_DENIED"


class HookAsks(Forbidden):
    """A hook of this machine asks for a person's word first: let somebody do it by the command line."""

    code = "HOOK_ASKS"


class BudgetExceeded(HoldfastError):
    """This would take more than may be spent."""

    code = "BUDGET_EXCEEDED"


class Misaddressed(HoldfastError):
    """The Host or Origin of this request is not this server."""

    code = "MISADDRESSED"


class NotAllowed(HoldfastError):
    """This path does not take that method."""

    code = "METHOD_NOT_ALLOWED"


class WrongMediaType(HoldfastError):
    """Send the body as JSON, with `Content-Type: application/json`."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class TooLarge(HoldfastError):
    """The request is larger than this server takes."""

    code = "TOO_LARGE"


class Cancelled(HoldfastError):
    """The caller gave up; nothing was written."""

    code = "CANCELLED"


class TimedOut(Cancelled):
    """The request took too long and was stopped; nothing was written."""

    code = "TIMED_OUT"


class Misconfigured(HoldfastError):
    """A setting cannot be used."""

    code = "MISCONFIGURED"


class EmbedderFailed(HoldfastError):
    """No vector could be made of a text: what has none is found by its words."""

    code = "EMBEDDER_FAILED"


class ModelFailed(HoldfastError):
    """The model gave no answer that can be used: everything goes by rules alone."""

    code = "MODEL_FAILED"

    def __init__(
        self, message: str | None = None, *, retryable: bool | None = None, unpaid: bool = False, answered: bool = False
    ) -> None:
        super().__init__(message, retryable=retryable)
        self.unpaid = unpaid
        """Whether the model surely did nothing, so that nothing has to be paid."""
        self.answered = answered
        """Whether its host said something, if nothing of use."""


class PeerFailed(HoldfastError):
    """The other store gave no answer that can be used; what it had answered before is kept."""

    code = "PEER_FAILED"


class FileRefused(HoldfastError):
    """A file of another program cannot be changed safely; it was left as it is."""

    code = "FILE_REFUSED"


class FileMalformed(FileRefused):
    """A file of another program is not well-formed; it was left as it is. Put it right and try again."""

    code = "FILE_MALFORMED"


class FileUnsafe(FileRefused):
    """Everybody on this machine may change that file; it was left as it is. Take that right away and try again."""

    code = "FILE_UNSAFE"


class QuorumNotMet(HoldfastError):
    """Too few other stores have this yet. It is kept here and goes over later: do not send it again."""

    code = "QUORUM_NOT_MET"


class StoreError(HoldfastError):
    """The store cannot do this now."""

    code = "STORE_ERROR"


class StoreBusy(StoreError):
    """Another process held the store for too long: try again."""

    code = "STORE_BUSY"
    retryable = True


class StoreFull(StoreError):
    """No space is left where the store is kept; nothing was written. Free some and try again."""

    code = "STORE_FULL"


class StoreUnreachable(StoreError):
    """The store cannot be opened: check its path and permissions."""

    code = "STORE_UNREACHABLE"


class OutcomeUnknown(StoreError):
    """The connection broke while the change was being committed: it is kept as a whole or not at all. Look which."""

    code = "OUTCOME_UNKNOWN"


class NotAStore(StoreError):
    """The file is not a Holdfast store; it was left as it is."""

    code = "NOT_A_STORE"


class NewerStore(StoreError):
    """The store was written by a later release of Holdfast: upgrade to open it."""

    code = "NEWER_STORE"


class StoreDamaged(StoreError):
    """The store is damaged; it was left as it is. Move it away and restore a backup."""

    code = "STORE_DAMAGED"
