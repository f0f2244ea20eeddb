"""Derive the namespace of a project from git remotes, paths and override files. Pure: does not read files."""

import re
import unicodedata
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from holdfast.features.people.model import PEOPLE_ROOT
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.validate import namespace as validate_namespace

ROOT = "projects"
MAX_PARTS = 5
"""Segments of a remote's path; deeper ones are joined."""
MAX_NAMESPACE = 120
"""Characters of a project namespace."""
OVERRIDE_FILE = ".holdfast.toml"
MIN_BUDGET, MAX_BUDGET = 100, 20_000
PERSONAL_ROOTS = (PEOPLE_ROOT, "users")
"""Namespaces of people, here and in imports; projects cannot use them."""

MatchedBy = Literal["override", "remote", "repository", "folder"]
"""What determines the project: an override file, the git remote, the repository's path, or the folder's path."""

_SCP = re.compile(r"(?:[^@/:\s]+@)?(\[[0-9a-fA-F:.]+\]|[^@/:\s]{2,}):(?!//)(.+)", re.DOTALL)
"""host:path as git accepts it; a single letter is a Windows drive."""
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_UNFIT = re.compile(r"[^\w.~+-]+")
_PREFERRED = ("origin", "upstream")


class Remote(NamedTuple):
    """A git remote without protocol, port and credentials."""

    host: str
    """Empty for a local folder."""
    path: str


class Override(NamedTuple):
    """The only settings that an override file may have."""

    namespace: str | None = None
    below: str | None = None
    """A namespace below the one the project has without the file."""
    budget: int | None = None


def parse_remote(url: str) -> Remote | None:
    """Parse a remote URL; drops protocol, port, credentials and the suffix .git. None if it is not a remote."""
    url = url.strip()
    if not url or any(ord(sign) < 32 for sign in url):
        return None
    if "://" in url:
        return _parse_url(url)
    if found := _SCP.fullmatch(url):
        return _make_remote(found[1], found[2])
    return Remote("", _strip_suffix(url)) if _strip_suffix(url) else None


def _parse_url(url: str) -> Remote | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    if parts.scheme.lower() == "file":
        return Remote("", _strip_suffix(unquote(parts.path))) if _strip_suffix(parts.path) else None
    return _make_remote(host, unquote(parts.path))


def _make_remote(host: str, path: str) -> Remote | None:
    host = host.strip("[]").rstrip(".").lower()
    plain = _strip_suffix(path).strip("/").lower()
    return Remote(host, plain) if host and plain else None


def _strip_suffix(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")


def choose_remote(urls: dict[str, str]) -> tuple[str, Remote] | None:
    """Choose the remote that identifies the project: origin, else upstream, else the first by name."""
    names = [name for name in _PREFERRED if name in urls] + sorted(set(urls) - set(_PREFERRED))
    return next(((name, found) for name in names if (found := parse_remote(urls[name])) is not None), None)


def parse_remotes(config: str) -> dict[str, str]:
    """Parse the remotes of a git config, each with its first URL."""
    found: dict[str, str] = {}
    name: str | None = None
    for line in config.splitlines():
        text = line.strip()
        if section := _SECTION.match(text):
            name = re.sub(r"\\(.)", r"\1", section[2] or "") if section[1].lower() == "remote" else None
            text = text[section.end() :].strip()
        key, is_set, value = text.partition("=")
        if name and is_set and key.strip().lower() == "url":
            found.setdefault(name, _parse_value(value))
    return found


def _parse_value(text: str) -> str:
    """Return a config value without quotes and trailing comment."""
    characters, quoted, signs = list[str](), False, iter(text.strip())
    for sign in signs:
        if sign == '"':
            quoted = not quoted
        elif sign == "\\":
            characters.append(next(signs, ""))
        elif sign in "#;" and not quoted:
            break
        else:
            characters.append(sign)
    return "".join(characters).strip()


def remote_namespace(remote: Remote) -> str:
    """Return the project namespace of a remote."""
    if not remote.host:
        return folder_namespace("git", remote.path)
    parts = [part for part in remote.path.split("/") if part]
    if len(parts) > MAX_PARTS:
        deep = "-".join(parts[MAX_PARTS - 1 :])
        parts = [*parts[: MAX_PARTS - 1], f"{deep[:40]}-{_digest(remote.path)}"]
    return _join_namespace([ROOT, remote.host, *parts])


def folder_namespace(sort: Literal["git", "folder"], path: str) -> str:
    """Return the project namespace of a local path: its name and a digest of the whole path."""
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return _join_namespace([ROOT, sort, f"{name.removesuffix('.git') or 'root'}-{_digest(path)}"])


def _join_namespace(parts: Iterable[str]) -> str:
    name = "/".join(map(_clean_segment, parts))
    return name if len(name) <= MAX_NAMESPACE else f"{name[: MAX_NAMESPACE - 13].rstrip('/')}-{_digest(name)}"


def _clean_segment(part: str) -> str:
    """Replace characters that namespaces do not allow or shells interpret."""
    plain = _UNFIT.sub("-", unicodedata.normalize("NFC", part)).lstrip("_-.") or "x"
    return plain if plain.strip(".") else "x"


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


def validate_override(table: Any, where: str) -> Override:
    """Validate an override file. It comes with a folder from an untrusted author, so only three keys are allowed."""
    if not isinstance(table, dict):
        raise Invalid(f"{where}: must be a table")
    if unknown := sorted(map(str, table.keys() - {"namespace", "below", "budget"})):
        raise Invalid(f"{where}: unknown key {', '.join(unknown)}; allowed: namespace, below, budget")
    if "namespace" in table and "below" in table:
        raise Invalid(f"{where}: give namespace or below, not both")
    budget = table.get("budget")
    if budget is not None and (type(budget) is not int or not MIN_BUDGET <= budget <= MAX_BUDGET):
        raise Invalid(f"{where}: budget: must be {MIN_BUDGET} to {MAX_BUDGET} tokens")
    return Override(_override_namespace(table, "namespace", where), _override_namespace(table, "below", where), budget)


def _override_namespace(table: dict[str, Any], key: str, where: str) -> str | None:
    if key not in table:
        return None
    if not isinstance(table[key], str):
        raise Invalid(f"{where}: {key}: must be a string")
    return (
        validate_project(table[key], f"{where}: {key}") if key == "namespace" else validate_namespace(table[key], key)
    )


def validate_project(name: str, field: str = "project") -> str:
    """Validate the namespace of a project."""
    name = validate_namespace(name, field)
    if len(name) > MAX_NAMESPACE:
        raise Invalid(f"{field}: at most {MAX_NAMESPACE} characters", fields=[field])
    if name.partition("/")[0] in PERSONAL_ROOTS or name.rpartition("/")[2].startswith("_"):
        raise Invalid(f"{field}: {name} is reserved and cannot be a project", fields=[field])
    return name
