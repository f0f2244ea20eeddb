"""Find the project of a folder from git's files, without running git, and manage project aliases."""

import os
import stat
from collections.abc import Iterator
from os.path import isdir, isfile
from pathlib import Path
from typing import NamedTuple

from holdfast.features.agent_hosts import project
from holdfast.features.agent_hosts.project import OVERRIDE, By, Override
from holdfast.features.people import service as principals
from holdfast.features.people.store import known_as
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid, NotFound, StoreNotFound

MOST_CONFIG = 1 << 20
"""Bytes read of a repository's config."""
MOST_OVERRIDE = 4096
MOST_SHOWN = 300
"""Characters shown of a path that a file contains."""
MOST_ABOVE = 64
"""Parent folders to search."""
_MARK = "project:"
"""Prefix of project names in the alias table."""


class Repository(NamedTuple):
    """A git repository or worktree."""

    root: Path
    """Folder of the checked-out files."""
    common: Path
    """Git folder shared by all worktrees."""
    sort: str


class Which(NamedTuple):
    """The project of a folder and how it was determined."""

    namespace: str
    """Namespace of its memories."""
    by: By
    why: list[str]
    folder: Path
    root: Path
    names: tuple[str, ...]
    """All names; that of the namespace first."""
    own: str
    """Its own name, before merges."""
    budget: int | None


def which(hold: Hold, folder: Path) -> Which:
    """Find the project of a folder with its merged names; without a store there are none."""
    found = identify(folder)
    try:
        names = names_of(hold, found.own)
    except StoreNotFound:
        return found
    if names[0] == found.own:
        return found._replace(names=names)
    why = [*found.why, f"{found.own} was merged into {names[0]}"]
    return found._replace(namespace=names[0], names=names, why=why)


def identify(folder: Path) -> Which:
    """Find the project of a folder by files alone. Raises if the override file is invalid."""
    folder = _real(folder)
    if not isdir(folder):
        raise NotFound(f"path: the folder {folder} does not exist")
    repository = repository_of(folder)
    root = repository.root if repository else folder
    spoilt = _spoilt_on_the_way(folder, repository)
    own, by, why = _by_git(repository) if repository else _by_folder(folder, spoilt)
    why = [*spoilt, *why]
    place, override, remarks = _overridden(folder, repository.root if repository else None)
    if override and (override.namespace or override.below):
        own = project.admit_project(override.namespace or f"{own}/{override.below}", str(place))
        by, why = "override", [*why, f"{place} sets {own}"]
    return Which(own, by, [*why, *remarks], folder, root, (own,), own, override.budget if override else None)


def _by_git(repository: Repository) -> tuple[str, By, list[str]]:
    why = [f"{repository.root} is {repository.sort}; its common git folder is {repository.common}"]
    found = project.chosen(project.remotes(_read(repository.common / "config", MOST_CONFIG) or ""))
    if found is None:
        own = project.named_folder("git", _clean(repository.common))
        return own, "repository", [*why, "it has no remote: identified by its path"]
    name, remote = found
    if remote.host:
        return project.namespace_of(remote), "remote", [*why, f"its remote {name} is {remote.host}/{remote.path}"]
    path = _clean(_real(repository.common.parent / remote.path))
    return project.named_folder("git", path), "remote", [*why, f"its remote {name} is the folder {path}"]


def _by_folder(folder: Path, spoilt: list[str]) -> tuple[str, By, list[str]]:
    status = "counts as a folder without git until then" if spoilt else "is not under git"
    return project.named_folder("folder", str(folder)), "folder", [f"{folder} {status}: identified by its path"]


def _clean(common: Path) -> str:
    """Return the repository's folder without .git or .bare."""
    return str(common.parent if common.name in (".git", ".bare") else common).removesuffix(".git")


# Git's files


def repository_of(folder: Path) -> Repository | None:
    """Find the nearest repository that contains the folder; a submodule is its own repository."""
    for place in _upwards(folder):
        link = place / ".git"
        if isfile(link / "HEAD"):
            return Repository(place, _common(link), "the main worktree of a repository")
        if isfile(link) and (found := _linked(place, link)) is not None:
            return found
        if isfile(place / "HEAD") and isdir(place / "objects") and isdir(place / "refs"):
            return Repository(place, _common(place), "a bare repository")
    return None


def _linked(place: Path, link: Path) -> Repository | None:
    """Resolve a worktree or submodule to its repository."""
    private = _pointed(place, link)
    if private is None or not isfile(private / "HEAD"):
        return None
    common = _common(private)
    if common != private:
        return Repository(place, common, "a worktree of a repository")
    return Repository(place, common, "a submodule" if "modules" in private.parts else "a worktree of a repository")


def _pointed(place: Path, link: Path) -> Path | None:
    """Read the gitdir of a .git file; None if it has none."""
    text = _read(link, MOST_OVERRIDE) or ""
    if not text.startswith("gitdir:") or "\0" in text:
        return None
    return _real(place / text.removeprefix("gitdir:").strip())


def _spoilt_on_the_way(folder: Path, repository: Repository | None) -> list[str]:
    """Describe the .git entries below the repository that were skipped because they lead nowhere."""
    spoilt = list[str]()
    for place in _upwards(folder):
        if repository and place == repository.root:
            break
        spoilt += [_spoilt(place, place / ".git")] if os.path.lexists(place / ".git") else []
    return spoilt


def _spoilt(place: Path, link: Path) -> str:
    if isdir(link):
        return f"{link} has no HEAD, so it is not a repository: repair it or clone again"
    private = _pointed(place, link) if isfile(link) else None
    if private is None:
        return f"{link} does not point to a repository: repair or remove it"
    problem = "has no HEAD" if isdir(private) else "does not exist"
    repair = "run `git worktree repair` in its repository" if "worktrees" in private.parts else "repair it"
    return f"{link} points to {_short(private)}, which {problem}: if that was moved, {repair}"


def _short(path: Path) -> str:
    return str(path) if len(str(path)) <= MOST_SHOWN else f"{str(path)[:MOST_SHOWN]}..."


def _common(private: Path) -> Path:
    text = (_read(private / "commondir", MOST_OVERRIDE) or "").strip()
    return _real(private / text) if text else _real(private)


def _upwards(folder: Path) -> Iterator[Path]:
    yield from [folder, *folder.parents][:MOST_ABOVE]


def _read(file: Path, most: int) -> str | None:
    """Read the beginning of a regular file; None if it cannot be read. Never waits for a pipe."""
    try:
        number = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    with open(number, "rb") as source:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return None
        return source.read(most).decode(errors="replace")


def _real(path: Path) -> Path:
    """Resolve links; a path with a link cycle stays unchanged."""
    return Path(os.path.realpath(path))


# The file that overrides


def _overridden(folder: Path, root: Path | None) -> tuple[Path | None, Override | None, list[str]]:
    """Find the nearest override file, within the repository; without a repository, anywhere above."""
    remarks: list[str] = []
    for place in _upwards(folder):
        file = place / OVERRIDE
        if os.path.lexists(file):
            if _is_anothers(file):
                remarks.append(f"{file} belongs to another user or is world-writable: not read")
            else:
                return file, _admitted(file), remarks
        if place == root:
            break
    return None, None, remarks


def _is_anothers(file: Path) -> bool:
    """Return whether another user may have written the file, as in a shared parent folder."""
    if not hasattr(os, "getuid"):
        return False
    try:
        found = file.lstat()
    except OSError:
        return True
    return found.st_uid not in (os.getuid(), 0) or (bool(found.st_mode & stat.S_IWOTH) and not file.is_symlink())


def _admitted(file: Path) -> Override:
    import tomllib

    text = _read(file, MOST_OVERRIDE + 1)
    if text is None or len(text) > MOST_OVERRIDE or file.is_symlink():
        raise Invalid(f"{file}: must be a readable regular file of at most {MOST_OVERRIDE} bytes, not a link")
    try:
        return project.admit_override(tomllib.loads(text.removeprefix("\ufeff")), str(file))
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{file}: invalid TOML: {error}") from None
    except RecursionError:
        raise Invalid(f"{file}: nested too deeply") from None


# Aliases


def names_of(hold: Hold, name: str) -> tuple[str, ...]:
    """List every name of a project; that of its namespace first."""
    with hold.reading() as session:
        names = _bare(known_as(session, f"{_MARK}{name}"))
    return tuple(other for other in names if hold.caller.reaches(other)) or (name,)


def merge(hold: Hold, into: str, alias: str) -> tuple[str, ...]:
    """Make a project an alias of another; both then share what is known of either."""
    into, alias = project.admit_project(into, "project"), project.admit_project(alias, "alias")
    for name in (into, alias):
        hold.caller.must_reach(name)
    if into == alias:
        raise Invalid(f"alias: {alias} is the same project", fields=["alias"])
    return _bare(principals.merge(hold, f"{_MARK}{alias}", f"{_MARK}{into}").names)


def split(hold: Hold, alias: str) -> tuple[str, ...]:
    """Separate a merged project again."""
    hold.caller.must_reach(alias := project.admit_project(alias, "alias"))
    try:
        return _bare(principals.split(hold, f"{_MARK}{alias}").names)
    except NotFound:
        raise NotFound(f"{alias} was not merged into another project.") from None


def merged(hold: Hold) -> list[tuple[str, str]]:
    """List merged projects with their targets."""
    with hold.reading() as session:
        rows = session.rows("principal_marked", mark=_MARK, beyond="project;")
    pairs = [_bare((name, stands_for)) for name, stands_for in rows]
    return [(one, other) for one, other in pairs if hold.caller.reaches(one) and hold.caller.reaches(other)]


def _bare(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.removeprefix(_MARK) for name in names)
