"""Which project a folder belongs to, and where its memories go. Pure: what the files say is read elsewhere."""

import re
import unicodedata
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from holdfast.features.people import person_namespace as people
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.taxonomy import lineage
from holdfast.kernel.records.validate import namespace as admitted

ROOT = "projects"
MOST_PARTS = 5
"""Segments of a remote's path that are told apart; those of a deeper one are drawn together."""
LONGEST = 120
"""Characters of a project's namespace."""
OVERRIDE = ".holdfast.toml"
LEAST_BUDGET, MOST_BUDGET = 100, 20_000
PRIVATE = (people.ROOT, "users")
"""Where facts about people lie, here and in what came from elsewhere: no project's own."""

By = Literal["override", "remote", "repository", "folder"]
"""What says which project it is: a file, where the repository comes from, where it lies, or where the folder lies."""

_SCP = re.compile(r"(?:[^@/:\s]+@)?(\[[0-9a-fA-F:.]+\]|[^@/:\s]{2,}):(?!//)(.+)", re.DOTALL)
"""host:path, as git takes it; one letter is the drive of a path."""
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_UNFIT = re.compile(r"[^\w.~+-]+")
_PREFERRED = ("origin", "upstream")


class Remote(NamedTuple):
    """Where a repository comes from, by whichever protocol and as whomever it is asked."""

    host: str
    """Empty: it is a folder."""
    path: str


class Override(NamedTuple):
    """What a file in a folder may say of it, and nothing else."""

    namespace: str | None = None
    below: str | None = None
    """A place below what the project would have without the file."""
    budget: int | None = None


def remote_of(url: str) -> Remote | None:
    """A remote's address without protocol, port, credentials and the suffix .git; None: it is none."""
    url = url.strip()
    if not url or any(ord(sign) < 32 for sign in url):
        return None
    if "://" in url:
        return _by_url(url)
    if found := _SCP.fullmatch(url):
        return _remote(found[1], found[2])
    return Remote("", _plain(url)) if _plain(url) else None


def _by_url(url: str) -> Remote | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    if parts.scheme.lower() == "file":
        return Remote("", _plain(unquote(parts.path))) if _plain(parts.path) else None
    return _remote(host, unquote(parts.path))


def _remote(host: str, path: str) -> Remote | None:
    host = host.strip("[]").rstrip(".").lower()
    plain = _plain(path).strip("/").lower()
    return Remote(host, plain) if host and plain else None


def _plain(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")


def chosen(urls: dict[str, str]) -> tuple[str, Remote] | None:
    """The remote that says which project it is: origin, else upstream, else the first by its name."""
    names = [name for name in _PREFERRED if name in urls] + sorted(set(urls) - set(_PREFERRED))
    return next(((name, found) for name in names if (found := remote_of(urls[name])) is not None), None)


def remotes(config: str) -> dict[str, str]:
    """The remotes of a repository's configuration, each with its first address."""
    found: dict[str, str] = {}
    name: str | None = None
    for line in config.splitlines():
        text = line.strip()
        if section := _SECTION.match(text):
            name = re.sub(r"\\(.)", r"\1", section[2] or "") if section[1].lower() == "remote" else None
            text = text[section.end() :].strip()
        key, is_set, value = text.partition("=")
        if name and is_set and key.strip().lower() == "url":
            found.setdefault(name, _value(value))
    return found


def _value(text: str) -> str:
    """A value without its quotes and what is remarked after it."""
    kept, quoted, signs = list[str](), False, iter(text.strip())
    for sign in signs:
        if sign == '"':
            quoted = not quoted
        elif sign == "\\":
            kept.append(next(signs, ""))
        elif sign in "#;" and not quoted:
            break
        else:
            kept.append(sign)
    return "".join(kept).strip()


def namespace_of(remote: Remote) -> str:
    """Where the memories of what comes from somewhere go."""
    if not remote.host:
        return named_folder("git", remote.path)
    parts = [part for part in remote.path.split("/") if part]
    if len(parts) > MOST_PARTS:
        deep = "-".join(parts[MOST_PARTS - 1 :])
        parts = [*parts[: MOST_PARTS - 1], f"{deep[:40]}-{_digest(remote.path)}"]
    return _joined([ROOT, remote.host, *parts])


def named_folder(sort: Literal["git", "folder"], path: str) -> str:
    """Where the memories of a place on this machine go: by its name, told apart by all of its path."""
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return _joined([ROOT, sort, f"{name.removesuffix('.git') or 'root'}-{_digest(path)}"])


def _joined(parts: Iterable[str]) -> str:
    name = "/".join(map(_fit, parts))
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 13].rstrip('/')}-{_digest(name)}"


def _fit(part: str) -> str:
    """A segment in signs that a namespace may have and a shell leaves alone."""
    plain = _UNFIT.sub("-", unicodedata.normalize("NFC", part)).lstrip("_-.") or "x"
    return plain if plain.strip(".") else "x"


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


def admit_override(given: Any, where: str) -> Override:
    """What a file says, if it says nothing but what it may; it comes with a folder, from whoever made that."""
    if not isinstance(given, dict):
        raise Invalid(f"{where}: must be a table")
    if unknown := sorted(map(str, given.keys() - {"namespace", "below", "budget"})):
        raise Invalid(f"{where}: it may say namespace, below and budget, and not {', '.join(unknown)}")
    if "namespace" in given and "below" in given:
        raise Invalid(f"{where}: namespace or below, not both")
    budget = given.get("budget")
    if budget is not None and (type(budget) is not int or not LEAST_BUDGET <= budget <= MOST_BUDGET):
        raise Invalid(f"{where}: budget: {LEAST_BUDGET} to {MOST_BUDGET} tokens")
    return Override(_place(given, "namespace", where), _place(given, "below", where), budget)


def _place(given: dict[str, Any], key: str, where: str) -> str | None:
    if key not in given:
        return None
    if not isinstance(given[key], str):
        raise Invalid(f"{where}: {key}: must be a text")
    return admit_project(given[key], f"{where}: {key}") if key == "namespace" else admitted(given[key], key)


def admit_project(name: str, field: str = "project") -> str:
    """A namespace that may be a project's."""
    name = admitted(name, field)
    if len(name) > LONGEST:
        raise Invalid(f"{field}: at most {LONGEST} characters", fields=[field])
    if name.partition("/")[0] in PRIVATE or name.rpartition("/")[2].startswith("_"):
        raise Invalid(f"{field}: {name} is no place for a project's memories", fields=[field])
    return name


def around(names: Iterable[str], default: str) -> tuple[str, ...]:
    """Where what bears on a project may lie: under each of its names, above them, and where all else goes."""
    return tuple(dict.fromkeys([*(place for name in names for place in lineage(name)), default]))
