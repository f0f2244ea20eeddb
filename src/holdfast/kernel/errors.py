"""All errors that callers can get.

    HoldfastError
    ├── Invalid                      the request is not valid
    │   ├── AmbiguousId              an id prefix matches several memories
    │   ├── FilterRequired           a bulk change without a filter
    │   ├── DepthMismatch            the given reflection depth is wrong
    │   └── SecretRefused            a secret in a namespace that rejects secrets
    ├── NotFound                     no such record, or not visible to the caller
    │   ├── HistoryCompacted         the history was compacted
    │   └── StoreNotFound            no store at this path or URL
    ├── Conflict                     conflicts with existing data
    │   ├── TitleTaken               another memory has this title in this namespace
    │   ├── VersionConflict          the record changed since it was read
    │   ├── ChangedSince             a later change blocks the undo
    │   ├── DepthExceeded            deeper than the namespace allows
    │   ├── CycleDetected            a memory would be derived from itself
    │   ├── AlreadyAtomised          the memory was split before
    │   ├── SourceTooSmall           the memory is too short to split
    │   ├── CuratorBusy              another curator is running
    │   └── LeaseLost                the lease of a task has ended
    ├── AuthenticationRequired       missing or invalid key
    ├── Forbidden                    the key or agent has no right to do this
    │   ├── ConfirmationRequired     an irreversible command without confirmation
    │   ├── ApprovalRequired         another agent must approve it first
    │   ├── HookDenied               a lifecycle hook denied it
    │   └── HookConfirmationRequired a lifecycle hook requires confirmation
    ├── BudgetExceeded               the model budget is used up
    ├── WrongHost                    Host or Origin is not this server
    ├── MethodNotAllowed             the path does not support the method
    ├── WrongMediaType               the body is not declared as JSON
    ├── TooLarge                     the body exceeds the limit
    ├── OperationCancelled           the caller cancelled; nothing was written
    │   └── TimedOut                 the time limit passed; nothing was written
    ├── InvalidSetting               a setting is not valid
    ├── EmbedderFailed               computing an embedding failed
    ├── ModelFailed                  the model gave no usable answer
    ├── PeerFailed                   the peer gave no usable answer
    ├── FileRefused                  another program's file cannot be changed safely
    │   ├── FileMalformed            it is not well-formed
    │   └── FileUnsafe               other users can write to it
    ├── QuorumNotMet                 saved here, but too few peers have it yet
    └── StoreError                   the store failed
        ├── StoreBusy                waiting for another writer took too long
        ├── StoreFull                no space left; nothing was written
        ├── StoreUnreachable         the file or database cannot be opened
        ├── OutcomeUnknown           the connection broke during a commit
        ├── StoreClosed              the program closed it
        ├── NotAStore                the file is not a Holdfast store
        ├── NewerStore               written by a later release
        └── StoreDamaged             the store is corrupt or was modified

Each class has a stable `code`; its docstring is the default message. If `retryable` is true, nothing was written and
the same request may succeed later.
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

    def to_json(self) -> dict[str, Any]:
        """Return the error as JSON, the same on every surface."""
        again = {"retryable": True} if self.retryable else {}
        return {"error": self.message, "code": self.code, **again, **self.details}


class Invalid(HoldfastError):
    """The request is not valid."""

    code = "VALIDATION_FAILED"


class AmbiguousId(Invalid):
    """Several memories match this id prefix: give more characters."""

    code = "AMBIGUOUS_ID_PREFIX"


class FilterRequired(Invalid):
    """At least one filter is required: without one this would affect every memory."""

    code = "FILTER_REQUIRED"


class DepthMismatch(Invalid):
    """The depth does not match the sources: leave depth out, or give the deepest source's depth + 1."""

    code = "CALLER_DEPTH_MISMATCH"


class SecretRefused(Invalid):
    """The text contains a secret, which this namespace rejects: remove it."""

    code = "SECRET_REFUSED"


class NotFound(HoldfastError):
    """There is no such record."""

    code = "NOT_FOUND"


class HistoryCompacted(NotFound):
    """The history of that time was compacted: only the final states are available."""

    code = "FOLDED"


class StoreNotFound(NotFound):
    """There is no store at this path or URL; none was created."""

    code = "STORE_NOT_FOUND"


class Conflict(HoldfastError):
    """Conflicts with existing data."""

    code = "CONFLICT"


class TitleTaken(Conflict):
    """Another memory has this title in this namespace."""

    code = "TITLE_TAKEN"


class VersionConflict(Conflict):
    """The memory changed since you read it: read it again and repeat your change."""

    code = "VERSION_CONFLICT"


class ChangedSince(Conflict):
    """The record was changed again later: undo the later change first."""

    code = "CHANGED_SINCE"


class DepthExceeded(Conflict):
    """The reflection exceeds the namespace's maximum depth: use less deep sources, or raise max_reflection_depth."""

    code = "REFLECTION_DEPTH_EXCEEDED"


class CycleDetected(Conflict):
    """A memory cannot be derived from itself."""

    code = "REFLECTION_CYCLE_DETECTED"


class AlreadyAtomised(Conflict):
    """The memory was split before: use force to split it again."""

    code = "ALREADY_ATOMISED"


class SourceTooSmall(Conflict):
    """The memory is too short to split into parts of this size: use a smaller size."""

    code = "SOURCE_TOO_SMALL"


class CuratorBusy(Conflict):
    """Another curator is running in this store: try again when it has finished."""

    code = "CURATOR_BUSY"


class LeaseLost(Conflict):
    """Your lease of this task has ended; your result does not count."""

    code = "LEASE_LOST"


class AuthenticationRequired(HoldfastError):
    """A valid key is required: send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`."""

    code = "UNAUTHENTICATED"


class Forbidden(HoldfastError):
    """This key or agent has no right to do that."""

    code = "FORBIDDEN"


class ConfirmationRequired(Forbidden):
    """This cannot be undone: repeat the command with --yes."""

    code = "CONFIRMATION_REQUIRED"


class ApprovalRequired(Forbidden):
    """Another agent must approve this first."""

    code = "APPROVAL_REQUIRED"


class HookDenied(Forbidden):
    """A local hook denied this."""

    code = "HOOK_DENIED"


class HookConfirmationRequired(Forbidden):
    """A local hook requires confirmation. Run this from the CLI."""

    code = "HOOK_ASKS"


class BudgetExceeded(HoldfastError):
    """This would exceed the budget."""

    code = "BUDGET_EXCEEDED"


class WrongHost(HoldfastError):
    """The Host or Origin of this request does not match this server."""

    code = "MISADDRESSED"


class MethodNotAllowed(HoldfastError):
    """This path does not support that method."""

    code = "METHOD_NOT_ALLOWED"


class WrongMediaType(HoldfastError):
    """Send the body as JSON, with `Content-Type: application/json`."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class TooLarge(HoldfastError):
    """The request is larger than this server allows."""

    code = "TOO_LARGE"


class OperationCancelled(HoldfastError):
    """The caller cancelled; nothing was written."""

    code = "CANCELLED"


class TimedOut(OperationCancelled):
    """The request took too long and was stopped; nothing was written."""

    code = "TIMED_OUT"


class InvalidSetting(HoldfastError):
    """A setting is not valid."""

    code = "MISCONFIGURED"


class EmbedderFailed(HoldfastError):
    """Computing an embedding failed; keyword search still works."""

    code = "EMBEDDER_FAILED"


class ModelFailed(HoldfastError):
    """The model gave no usable answer; rules are used instead."""

    code = "MODEL_FAILED"

    def __init__(
        self, message: str | None = None, *, retryable: bool | None = None, unpaid: bool = False, answered: bool = False
    ) -> None:
        super().__init__(message, retryable=retryable)
        self.unpaid = unpaid
        """Whether the model certainly did not process the request, so that nothing is charged."""
        self.answered = answered
        """Whether its host responded at all."""


class PeerFailed(HoldfastError):
    """The peer gave no usable answer; changes received before are kept."""

    code = "PEER_FAILED"


class FileRefused(HoldfastError):
    """Another program's file cannot be changed safely; it was not changed."""

    code = "FILE_REFUSED"


class FileMalformed(FileRefused):
    """Another program's file is not well-formed; it was not changed. Correct it and try again."""

    code = "FILE_MALFORMED"


class FileUnsafe(FileRefused):
    """Every user of this machine can write to this file; it was not changed. Restrict its permissions and try again."""

    code = "FILE_UNSAFE"


class QuorumNotMet(HoldfastError):
    """Too few peers have acknowledged this. It is saved here and will be replicated: do not send it again."""

    code = "QUORUM_NOT_MET"


class StoreError(HoldfastError):
    """The store failed."""

    code = "STORE_ERROR"


class StoreBusy(StoreError):
    """Another process locked the store for too long: try again."""

    code = "STORE_BUSY"
    retryable = True


class StoreFull(StoreError):
    """No disk space is left for the store; nothing was written. Free some space and try again."""

    code = "STORE_FULL"


class StoreUnreachable(StoreError):
    """The store cannot be opened: check its path and permissions."""

    code = "STORE_UNREACHABLE"


class OutcomeUnknown(StoreError):
    """The connection broke during the commit: all or nothing of the change was saved. Check before you retry."""

    code = "OUTCOME_UNKNOWN"


class StoreClosed(StoreError):
    """The store is closed: open it again."""

    code = "STORE_CLOSED"


class NotAStore(StoreError):
    """The file is not a Holdfast store; it was not changed."""

    code = "NOT_A_STORE"


class NewerStore(StoreError):
    """The store was written by a newer version of Holdfast: upgrade to open it."""

    code = "NEWER_STORE"


class StoreDamaged(StoreError):
    """The store is damaged; it was not changed. Move it away and restore a backup."""

    code = "STORE_DAMAGED"
