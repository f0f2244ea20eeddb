"""Damaged bundles are rejected before anything is applied."""

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.features.sync.bundles import file as bundle_file
from holdfast.kernel.errors import HoldfastError, Invalid


@pytest.fixture
def engine() -> str:
    """Use one engine: damaged bundles are rejected before the store is used."""
    return "sqlite"


@pytest.fixture
def bundle(here: holdfast.Holdfast, tmp_path: Path) -> Path:
    kept = here.store(title="First", content="Said first.", tier="long")
    here.update(id=kept.id, content="Said better.")
    here.store(title="Second", content="Said second.", tier="long")
    here.sync_export_bundle(file=str(tmp_path / "all.bundle"))
    return tmp_path / "all.bundle"


def _repack(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    head, _, packed = content.partition(b"\n")
    return head + b"\n" + zlib.compress(change(zlib.decompress(packed)))


def _bomb(content: bytes) -> bytes:
    packing, head = zlib.compressobj(9), zlib.decompress(content.partition(b"\n")[2]).partition(b"\n")[0]
    line = b'{"change":null,"more":"' + b"0" * 65536 + b'"}\n'
    packed = packing.compress(head + b"\n") + b"".join(
        packing.compress(line) for _ in range(2 + bundle_file.RATIO_FREE_BYTES // len(line))
    )
    return b"holdfast bundle 1\n" + packed + packing.flush()


HARM: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "something else": lambda content: b"SQLite format 3\x00" + content,
    "cut off": lambda content: content[:-40],
    "cut within": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
    "longer": lambda content: content + b"more",
    "another word": lambda content: _repack(content, lambda text: text.replace(b"Said better.", b"Said worse!.")),
    "a line less": lambda content: _repack(
        content, lambda text: b"\n".join(text.split(b"\n")[:2] + text.split(b"\n")[3:])
    ),
    "a line twice": lambda content: _repack(content, lambda text: text.replace(b"\n", b"\n\n", 3)),
    "nonsense": lambda content: _repack(content, lambda text: text.replace(b'{"change', b'{"change":[[[[', 1)),
    "one long line": lambda content: _repack(content, lambda text: b" " * (bundle_file.MAX_LINE_BYTES + 70000)),
    "a bomb": _bomb,
    "newer": lambda content: content.replace(b"bundle 1\n", b"bundle 2\n", 1),
}


SAYS = {
    "longer": "data after its end",
    "something else": "different kind of file",
    "another word": "altered",
    "one long line": "longer than",
    "a bomb": "compression ratio",
    "newer": "later release",
}
"""The error texts of some of them."""


@pytest.mark.parametrize("name", HARM)
def test_a_corrupt_bundle_is_refused_and_changes_nothing(name: str, there: holdfast.Holdfast, bundle: Path) -> None:
    bundle.write_bytes(HARM[name](bundle.read_bytes()))
    with pytest.raises(HoldfastError) as refused:
        there.sync_import_bundle(file=str(bundle), trust_sender=True)
    assert isinstance(refused.value, Invalid)
    assert SAYS.get(name, "") in refused.value.message
    assert there.stats().total == 0
    assert there.verify().entries == 0
