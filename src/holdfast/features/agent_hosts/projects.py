"""Find the project of a folder from git's files, without running git, and manage project aliases."""

import os
import stat
from collections.abc import Iterable, Iterator
from os.path import isdir, isfile
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.agent_hosts import project_naming
from holdfast.features.agent_hosts.project_naming import OVERRIDE_FILE, MatchedBy, Override
from holdfast.features.people import service as principal_service
from holdfast.features.people.resolve_names import list_names
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid, NotFound, StoreNotFound

MAX_CONFIG_BYTES = 1 << 20
"""Bytes read of a repository's config."""
MAX_OVERRIDE_BYTES = 4096
MAX_SHOWN_CHARS = 300
"""Characters shown of a path that a file contains."""
MAX_PARENTS = 64
"""Parent folders to search."""
_ALIAS_PREFIX = "project:"
"""Prefix of project names in the alias table."""


class Repository(NamedTuple):
    """A git repository or worktree."""

    root: Path
    """Folder of the checked-out files."""
    common: Path
    """Git folder shared by all worktrees."""
    sort: str


class Project(Struct, frozen=True):
    """The project of a folder and how it was determined."""

    namespace: str
    """Namespace of its memories."""
    by: MatchedBy
    """What determined it: an override file, the git remote, the repository's path, or the folder's path."""
    why: list[str]
    folder: str
    root: str
    names: list[str]
    """All names of the project; that of the namespace first."""
    budget: int | None = None
    """Token budget of the override file, if set."""


class ProjectNames(Struct, frozen=True, kw_only=True):
    namespace: str
    """Namespace of the memories of all of them."""
    names: list[str]


class MergedProject(Struct, frozen=True, kw_only=True):
    alias: str
    project: str


def find_project(ctx: Context, folder: Path) -> Project:
    """Find the project of a folder with its merged names; without a store there are none."""
    found = identify_folder(folder)
    try:
        names = list(list_project_names(ctx, found.namespace))
    except StoreNotFound:
        return found
    merged = [] if names[0] == found.namespace else [f"{found.namespace} was merged into {names[0]}"]
    return replace(found, namespace=names[0], names=names, why=[*found.why, *merged])


def identify_folder(folder: Path) -> Project:
    """Find the project of a folder by files alone. Raises if the override file is invalid."""
    folder = _resolve_path(folder)
    if not isdir(folder):
        raise NotFound(f"path: the folder {folder} does not exist")
    repository = find_repository(folder)
    root = repository.root if repository else folder
    broken = _list_broken_links(folder, repository)
    own, by, why = _identify_by_git(repository) if repository else _identify_by_folder(folder, broken)
    why = [*broken, *why]
    place, override, remarks = _find_override(folder, repository.root if repository else None)
    if override and (override.namespace or override.below):
        own = project_naming.validate_project(override.namespace or f"{own}/{override.below}", str(place))
        by, why = "override", [*why, f"{place} sets {own}"]
    budget = override.budget if override else None
    return Project(own, by, [*why, *remarks], str(folder), str(root), [own], budget)


def _identify_by_git(repository: Repository) -> tuple[str, MatchedBy, list[str]]:
    why = [f"{repository.root} is {repository.sort}; its common git folder is {repository.common}"]
    found = project_naming.choose_remote(
        project_naming.parse_remotes(_read_start(repository.common / "config", MAX_CONFIG_BYTES) or "")
    )
    if found is None:
        own = project_naming.folder_namespace("git", _repository_path(repository.common))
        return own, "repository", [*why, "it has no remote: identified by its path"]
    name, remote = found
    if remote.host:
        return (
            project_naming.remote_namespace(remote),
            "remote",
            [*why, f"its remote {name} is {remote.host}/{remote.path}"],
        )
    path = _repository_path(_resolve_path(repository.common.parent / remote.path))
    return project_naming.folder_namespace("git", path), "remote", [*why, f"its remote {name} is the folder {path}"]


def _identify_by_folder(folder: Path, broken: list[str]) -> tuple[str, MatchedBy, list[str]]:
    status = "counts as a folder without git until then" if broken else "is not under git"
    return (
        project_naming.folder_namespace("folder", str(folder)),
        "folder",
        [f"{folder} {status}: identified by its path"],
    )


def _repository_path(common: Path) -> str:
    """Return the repository's folder without .git or .bare."""
    return str(common.parent if common.name in (".git", ".bare") else common).removesuffix(".git")


# Git's files


def find_repository(folder: Path) -> Repository | None:
    """Find the nearest repository that contains the folder; a submodule is its own repository."""
    for place in _walk_up(folder):
        link = place / ".git"
        if isfile(link / "HEAD"):
            return Repository(place, _common_dir(link), "the main worktree of a repository")
        if isfile(link) and (found := _resolve_linked(place, link)) is not None:
            return found
        if isfile(place / "HEAD") and isdir(place / "objects") and isdir(place / "refs"):
            return Repository(place, _common_dir(place), "a bare repository")
    return None


def _resolve_linked(place: Path, link: Path) -> Repository | None:
    """Resolve a worktree or submodule to its repository."""
    private = _read_gitdir(place, link)
    if private is None or not isfile(private / "HEAD"):
        return None
    common = _common_dir(private)
    if common != private:
        return Repository(place, common, "a worktree of a repository")
    return Repository(place, common, "a submodule" if "modules" in private.parts else "a worktree of a repository")


def _read_gitdir(place: Path, link: Path) -> Path | None:
    """Read the gitdir of a .git file; None if it has none."""
    text = _read_start(link, MAX_OVERRIDE_BYTES) or ""
    if not text.startswith("gitdir:") or "\0" in text:
        return None
    return _resolve_path(place / text.removeprefix("gitdir:").strip())


def _list_broken_links(folder: Path, repository: Repository | None) -> list[str]:
    """Describe the .git entries below the repository that were skipped because they lead nowhere."""
    broken = list[str]()
    for place in _walk_up(folder):
        if repository and place == repository.root:
            break
        broken += [_describe_broken(place, place / ".git")] if os.path.lexists(place / ".git") else []
    return broken


def _describe_broken(place: Path, link: Path) -> str:
    if isdir(link):
        return f"{link} has no HEAD, so it is not a repository: repair it or clone again"
    private = _read_gitdir(place, link) if isfile(link) else None
    if private is None:
        return f"{link} does not point to a repository: repair or remove it"
    problem = "has no HEAD" if isdir(private) else "does not exist"
    repair = "run `git worktree repair` in its repository" if "worktrees" in private.parts else "repair it"
    return f"{link} points to {_shorten_path(private)}, which {problem}: if that was moved, {repair}"


def _shorten_path(path: Path) -> str:
    return str(path) if len(str(path)) <= MAX_SHOWN_CHARS else f"{str(path)[:MAX_SHOWN_CHARS]}..."


def _common_dir(private: Path) -> Path:
    text = (_read_start(private / "commondir", MAX_OVERRIDE_BYTES) or "").strip()
    return _resolve_path(private / text) if text else _resolve_path(private)


def _walk_up(folder: Path) -> Iterator[Path]:
    yield from [folder, *folder.parents][:MAX_PARENTS]


def _read_start(file: Path, max_bytes: int) -> str | None:
    """Read the beginning of a regular file; None if it cannot be read. Never waits for a pipe."""
    try:
        number = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    with open(number, "rb") as source:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return None
        return source.read(max_bytes).decode(errors="replace")


def _resolve_path(path: Path) -> Path:
    """Resolve links; a path with a link cycle stays unchanged."""
    return Path(os.path.realpath(path))


# The file that overrides


def _find_override(folder: Path, root: Path | None) -> tuple[Path | None, Override | None, list[str]]:
    """Find the nearest override file, within the repository; without a repository, anywhere above."""
    remarks: list[str] = []
    for place in _walk_up(folder):
        file = place / OVERRIDE_FILE
        if os.path.lexists(file):
            if _is_owned_by_other(file):
                remarks.append(f"{file} belongs to another user or is world-writable: not read")
            else:
                return file, _read_override(file), remarks
        if place == root:
            break
    return None, None, remarks


def _is_owned_by_other(file: Path) -> bool:
    """Return whether another user may have written the file, as in a shared parent folder."""
    if not hasattr(os, "getuid"):
        return False
    try:
        found = file.lstat()
    except OSError:
        return True
    return found.st_uid not in (os.getuid(), 0) or (bool(found.st_mode & stat.S_IWOTH) and not file.is_symlink())


def _read_override(file: Path) -> Override:
    text = _read_start(file, MAX_OVERRIDE_BYTES + 1)
    if text is None or len(text) > MAX_OVERRIDE_BYTES or file.is_symlink():
        raise Invalid(f"{file}: must be a readable regular file of at most {MAX_OVERRIDE_BYTES} bytes, not a link")
    try:
        return project_naming.validate_override(msgspec.toml.decode(text.removeprefix("\ufeff")), str(file))
    except msgspec.DecodeError as error:
        raise Invalid(f"{file}: invalid TOML: {error}") from None
    except RecursionError:
        raise Invalid(f"{file}: nested too deeply") from None


# Aliases


def list_project_names(ctx: Context, name: str) -> tuple[str, ...]:
    """List every name of a project; that of its namespace first."""
    with ctx.reading() as session:
        names = _strip_prefix(list_names(session, f"{_ALIAS_PREFIX}{name}"))
    return tuple(other for other in names if ctx.caller.can_access(other)) or (name,)


def merge(ctx: Context, into: str, alias: str) -> ProjectNames:
    """Make a project an alias of another; both then share what is known of either."""
    into, alias = project_naming.validate_project(into, "project"), project_naming.validate_project(alias, "alias")
    for name in (into, alias):
        ctx.caller.require_access(name)
    if into == alias:
        raise Invalid(f"alias: {alias} is the same project", fields=["alias"])
    return _project_names(principal_service.merge(ctx, f"{_ALIAS_PREFIX}{alias}", f"{_ALIAS_PREFIX}{into}").names)


def split(ctx: Context, alias: str) -> ProjectNames:
    """Separate a merged project again."""
    ctx.caller.require_access(alias := project_naming.validate_project(alias, "alias"))
    try:
        return _project_names(principal_service.split(ctx, f"{_ALIAS_PREFIX}{alias}").names)
    except NotFound:
        raise NotFound(f"{alias} was not merged into another project.") from None


def list_merged(ctx: Context) -> list[MergedProject]:
    """List merged projects with their targets."""
    with ctx.reading() as session:
        rows = session.rows("principal_by_prefix", mark=_ALIAS_PREFIX, beyond="project;")
    pairs = [_strip_prefix((name, stands_for)) for name, stands_for in rows]
    return [
        MergedProject(alias=alias, project=name)
        for alias, name in pairs
        if all(map(ctx.caller.can_access, (alias, name)))
    ]


def _project_names(names: Iterable[str]) -> ProjectNames:
    first, *others = _strip_prefix(names)
    return ProjectNames(namespace=first, names=[first, *others])


def _strip_prefix(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.removeprefix(_ALIAS_PREFIX) for name in names)
