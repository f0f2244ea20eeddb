"""The embedder that the settings name. None is imported before it is chosen, and none is loaded or asked here."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from ..domain.admit import label
from ..domain.errors import Invalid, Misconfigured
from ..domain.vector import MOST_MODEL
from ..settings import Settings

if TYPE_CHECKING:
    from .port import Embedder
    from .remote import Remote

OPENAI = ("https://api.openai.com/v1", "text-embedding-3-small")
OLLAMA = ("http://127.0.0.1:11434", "nomic-embed-text")
"""Where each is, and the model that it is asked for, if nothing else is set."""


def chosen(settings: Settings) -> Embedder | None:
    """The embedder in force; None if vectors are turned off. Raises Misconfigured if it cannot be as it is set."""
    match settings.embedder:
        case "none":
            return None
        case "minilm":
            from .minilm import MiniLm

            return MiniLm()
        case "openai" | "ollama":
            return _provider(settings)


def _provider(settings: Settings) -> Remote:
    from . import remote
    from .post import Post

    url, model = OPENAI if settings.embedder == "openai" else OLLAMA
    words = remote.OPENAI if settings.embedder == "openai" else remote.OLLAMA
    address = _address(settings.embedding_url or url)
    post = Post(address, key=_key(settings.embedding_key), timeout=settings.embedding_timeout_secs)
    return remote.Remote(post, model=_model(settings.embedding_model or model), words=words)


def _address(url: str) -> SplitResult:
    """A provider's URL. What is wrong with one is not repeated: it may hold a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Misconfigured("embedding_url is not a URL.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not (url.isascii() and url.isprintable()):
        raise Misconfigured("embedding_url must begin with http:// or https:// and the name of a host.")
    if parts.username or parts.password or parts.query or parts.fragment or " " in url:
        raise Misconfigured("embedding_url holds more than a host and a path: a key belongs into embedding_key.")
    return parts


def _key(key: str | None) -> str | None:
    if key is not None and not (key.isascii() and key.isprintable()):
        raise Misconfigured(
            "embedding_key holds a character that no key has: was it copied whole, and without a line end?"
        )
    return key


def _model(name: str) -> str:
    try:
        return label("embedding_model", name, MOST_MODEL)
    except Invalid as error:
        raise Misconfigured(f"A setting cannot be used: {error.message}") from None
