"""Back up the whole store while others write, and restore a snapshot."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from holdfast.features.sync.peers.service import replace_peers
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid, NewerStore, NotAStore, NotFound, StoreDamaged, StoreError
from holdfast.kernel.journal import journal
from holdfast.kernel.local_files import local_path, translate_os_errors
from holdfast.kernel.records.fields import PRIVATE
from holdfast.kernel.storage.open_by_address import open_copy
from holdfast.kernel.storage.port import Store
from holdfast.kernel.timestamps import DAY, TimeText, format_timestamp
from holdfast.version import __version__

DEFAULT_KEEP = 48
CHUNK_BYTES = 1 << 20
_NAME = re.compile(r"holdfast-[0-9]{8}T[0-9]{6}\.[0-9]{6}Z\.db")
_LEFTOVER = re.compile(rf"\.({_NAME.pattern})\..+")
"""Unfinished snapshots and manifests, and the working directories of restores."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """Manifest of a snapshot; restore verifies its identity and digest."""

    snapshot: str
    sha256: str
    bytes: int
    source: str
    version: str
    created_at: TimeText
    reason: str | UnsetType = UNSET
    number: Annotated[int, PRIVATE] = 0
    """Its position in the order of creation in its directory, independent of the clock."""


class BackupResult(Snapshot, frozen=True, kw_only=True):
    path: str
    pruned: list[str]


class StoreRestoreResult(Struct, frozen=True, kw_only=True):
    restored: bool
    snapshot: str
    sha256: str
    created_at: TimeText
    dry_run: bool
    before: str | None = None
    """The snapshot taken before the restore; restore it to go back."""
    origin: str | None = None


def get_backup_folder(ctx: Context) -> Path:
    """Return the default backup directory, beside the store."""
    return ctx.store.sidecar_path("backups")


def back_up(
    ctx: Context, to: str | None = None, keep: int = DEFAULT_KEEP, reason: str | UnsetType = UNSET
) -> BackupResult:
    """Write a consistent snapshot and its manifest, durable on return; keep the last `keep` snapshots."""
    ctx.caller.require_all_namespaces()
    if to is not None:
        ctx.caller.require_local("to")
    folder = get_backup_folder(ctx) if to is None else local_path(to)
    with translate_os_errors(folder):
        _make_private(folder)
        path = _write_snapshot(ctx, folder)
        manifest = Snapshot(
            snapshot=path.name,
            sha256=digest_of(path),
            bytes=path.stat().st_size,
            source=ctx.store.path,
            version=__version__,
            created_at=format_timestamp(ctx.now()),
            reason=reason,
            number=_next_number(folder),
        )
        _write(manifest_of(path), msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        _sync_folder(folder)
        pruned = _prune(folder, manifest, keep, ctx.now())
        return BackupResult(**asdict(manifest), path=str(path), pruned=pruned)


def _make_private(folder: Path) -> None:
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def _write_snapshot(ctx: Context, folder: Path) -> Path:
    """Write a snapshot under a unique name; until complete it has a temporary name of this process."""
    partial = folder / f".{name_of(ctx.now())}.{os.getpid()}-{os.urandom(4).hex()}.partial"
    try:
        ctx.store.snapshot(partial)
        for at in count(ctx.now()):
            try:
                os.link(partial, folder / name_of(at))
            except FileExistsError:
                continue
            return folder / name_of(at)
    finally:
        partial.unlink(missing_ok=True)
    raise AssertionError("time does not end")


def name_of(at: int) -> str:
    """Return a snapshot name that sorts by time."""
    return f"holdfast-{format_timestamp(at).replace('-', '').replace(':', '')}.db"


def manifest_of(snapshot: Path) -> Path:
    return snapshot.with_name(snapshot.name + ".json")


def digest_of(file: Path) -> str:
    digest = sha256()
    with file.open("rb") as source:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _write(file: Path, content: bytes) -> None:
    """Write a file atomically, readable by its owner only."""
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())
    partial.rename(file)


def _sync_folder(folder: Path) -> None:
    """Sync a directory, so that renames in it survive a crash; Windows does not need this."""
    if os.name != "nt":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _next_number(folder: Path) -> int:
    return 1 + max((manifest.number for manifest in read_manifests(folder)[0]), default=0)


def _prune(folder: Path, made: Snapshot, keep: int, now: int) -> list[str]:
    """Remove snapshots older than the last `keep`, and files that a crash left more than a day ago.

    Never removes the new snapshot, nor the last one that can be restored.
    """
    kept, outdated = _split_outdated(folder, made, keep)
    if outdated and not any(_can_be_restored(folder, one, now) for one in reversed(kept)):
        spared = next((one for one in reversed(outdated) if _can_be_restored(folder, one, now)), None)
        outdated = [one for one in outdated if one is not spared]
    removed_names = [manifest.snapshot for manifest in outdated]
    for name in removed_names:
        (folder / name).unlink(missing_ok=True)
        manifest_of(folder / name).unlink(missing_ok=True)
    for leftover in folder.iterdir():
        match = _LEFTOVER.fullmatch(leftover.name)
        if match and match[1] < name_of(now - DAY):
            _remove_leftover(leftover)
    return removed_names


def _split_outdated(folder: Path, made: Snapshot, keep: int) -> tuple[list[Snapshot], list[Snapshot]]:
    """Split into the last `keep` complete snapshots (with any incomplete ones between) and older ones, oldest first."""
    kept: list[Snapshot] = []
    others = [one for one in read_manifests(folder)[0] if one.snapshot != made.snapshot]
    room = keep - 1
    while others and room:
        kept.append(others.pop())
        room -= _is_whole(folder, kept[-1])
    return [*reversed(kept), made], others


def _is_whole(folder: Path, manifest: Snapshot) -> bool:
    """Whether a snapshot has the size in its manifest; another process may have removed it."""
    try:
        return (folder / manifest.snapshot).stat().st_size == manifest.bytes
    except FileNotFoundError:
        return False


def _can_be_restored(folder: Path, manifest: Snapshot, now: int) -> bool:
    """Whether a snapshot can be restored."""
    try:
        with _open_verified_copy(folder / manifest.snapshot, manifest, folder, now):
            return True
    except (Invalid, NotAStore, NewerStore, StoreDamaged, FileNotFoundError):
        return False


def _remove_leftover(left: Path) -> None:
    """Remove a leftover file, or the working directory of a restore."""
    if not left.is_dir():
        left.unlink(missing_ok=True)
        return
    for inside in left.iterdir():
        inside.unlink(missing_ok=True)
    left.rmdir()


def names_in(folder: Path) -> list[str]:
    """List the snapshots in a directory, sorted by the times in their names."""
    return sorted(file.name for file in folder.iterdir() if _NAME.fullmatch(file.name)) if folder.is_dir() else []


def read_manifests(folder: Path) -> tuple[list[Snapshot], list[str]]:
    """Return the manifests in a directory in order of creation, and the snapshots without a readable manifest."""
    manifests, broken = list[Snapshot](), list[str]()
    for name in names_in(folder):
        try:
            manifests.append(read_manifest(folder / name))
        except Invalid:
            broken.append(name)
    return sorted(manifests, key=attrgetter("number")), broken


def list_snapshots(ctx: Context) -> tuple[list[Snapshot], list[str]]:
    """List the snapshots beside the store, newest first, and those without a readable manifest."""
    folder = get_backup_folder(ctx)
    with translate_os_errors(folder):
        manifests, broken = read_manifests(folder)
    return manifests[::-1], broken[::-1]


def read_manifest(snapshot: Path) -> Snapshot:
    try:
        manifest = msgspec.json.decode(manifest_of(snapshot).read_bytes(), type=Snapshot)
    except FileNotFoundError:
        raise Invalid(f"Snapshot {snapshot.name} has no manifest beside it.", fields=["from"]) from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Invalid(f"The manifest of {snapshot.name} cannot be read.", fields=["from"]) from None
    if manifest.snapshot != snapshot.name:
        raise Invalid(f"The manifest beside {snapshot.name} belongs to {manifest.snapshot}.", fields=["from"])
    return manifest


def restore(ctx: Context, source: str, *, dry_run: bool = False) -> StoreRestoreResult:
    """Replace the store with a snapshot, atomically for every process that has it open.

    Verifies the snapshot against its manifest and checks it as a store first. The current state, including every
    confirmed write, is saved as a snapshot. The store then starts a new incarnation.
    """
    ctx.caller.require_all_namespaces()
    folder = get_backup_folder(ctx)
    with translate_os_errors(folder):
        snapshot = find_snapshot(ctx, source)
        _make_private(folder)
        manifest = read_manifest(snapshot)
    with translate_os_errors(folder), _open_verified_copy(snapshot, manifest, folder, ctx.now()) as (copy, fresh):
        if dry_run:
            return _restore_result(manifest, dry_run=True)
        with ctx.store.transaction() as session:
            owner = journal.get_or_create_owner(session, ctx.store)
        before: list[str] = []
        origins: list[str] = []

        def prepare() -> None:
            before.append(back_up(ctx, keep=len(names_in(folder)) + 1, reason="before restore").snapshot)
            origins.append(_begin_incarnation(ctx, fresh, owner))

        ctx.store.replace(copy, prepare)
    return _restore_result(manifest, before[0], origins[0])


def _restore_result(
    manifest: Snapshot, before: str | None = None, origin: str | None = None, *, dry_run: bool = False
) -> StoreRestoreResult:
    return StoreRestoreResult(
        restored=not dry_run,
        snapshot=manifest.snapshot,
        sha256=manifest.sha256,
        created_at=manifest.created_at,
        dry_run=dry_run,
        before=before,
        origin=origin,
    )


@contextmanager
def _open_verified_copy(snapshot: Path, manifest: Snapshot, folder: Path, now: int) -> Iterator[tuple[Path, Store]]:
    """Copy a snapshot, verify it against its manifest, open and check it; remove the copy on exit."""
    with tempfile.TemporaryDirectory(prefix=f".{name_of(now)}.", dir=folder) as scratch:
        copy = Path(scratch) / "copy.db"
        _copy_and_verify(snapshot, copy, manifest)
        with closing(_open_sound_copy(copy, manifest)) as fresh:
            yield copy, fresh


def find_snapshot(ctx: Context, source: str) -> Path:
    """Find a snapshot by name or, for local callers, by its path or a directory of snapshots."""
    default_path = get_backup_folder(ctx) / source
    if _NAME.fullmatch(source) and default_path.is_file():
        return default_path
    if not _NAME.fullmatch(source):
        ctx.caller.require_local("from")
    path = local_path(source)
    if ctx.caller.is_local and path.is_dir() and names_in(path):
        return path / _find_newest(path)
    if ctx.caller.is_local and path.is_file():
        return path
    raise NotFound(f"No snapshot {source!r}. List snapshots with backup_list.", snapshot=source)


def _find_newest(folder: Path) -> str:
    """Return the newest snapshot in a directory, including those without a manifest."""
    manifests, broken = read_manifests(folder)
    return max([*(one.snapshot for one in manifests[-1:]), *broken])


def _copy_and_verify(snapshot: Path, copy: Path, manifest: Snapshot) -> None:
    """Copy and hash in one pass, so that exactly the verified bytes are used."""
    digest, size = sha256(), 0
    with (
        snapshot.open("rb") as given,
        os.fdopen(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as to,
    ):
        while chunk := given.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            to.write(chunk)
    if (digest.hexdigest(), size) != (manifest.sha256, manifest.bytes):
        raise Invalid(f"Snapshot {snapshot.name} does not match its manifest: it was altered.", fields=["from"])


def _open_sound_copy(copy: Path, manifest: Snapshot) -> Store:
    """Open a copy if it is an undamaged Holdfast store of this or an older release."""
    try:
        store = open_copy(copy)
    except StoreError as error:
        raise type(error)(f"Snapshot {manifest.snapshot} cannot be restored: {error.message}") from error
    if faults := store.faults():
        store.close()
        raise StoreDamaged(f"Snapshot {manifest.snapshot} is damaged ({faults[0].what}). Nothing was changed.")
    return store


_KEY_COLUMNS = ("id", "name", "hash", "access_right", "namespaces", "agent", "created_at", "revoked_at")


def _begin_incarnation(ctx: Context, fresh: Store, owner: journal.Owner) -> str:
    """Turn a copy into the next incarnation of this node. Keys and peers stay current; they are not restored."""
    with ctx.store.reading() as before, fresh.transaction() as session:
        now, then = journal.get_head(before), journal.get_head(session)
        number = max(now.incarnation, then.incarnation if then.node == now.node else 0) + 1
        for key in before.rows("key_all"):
            session.do("key_put", **dict(zip(_KEY_COLUMNS, key, strict=True)))
        if then.node == now.node:
            replace_peers(before, session)
        return journal.start_incarnation(session, owner, now.node, number, adopt=True).origin
