"""The documentation as something that runs: pages, their fenced blocks, and a shell that follows them."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN = [page for page in PAGES if "reference" not in page.parts]
"""The pages that people write; the reference is generated."""

_FENCE = re.compile(r"^(?P<reason><!-- not run: [^\n]* -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_PRINTED = re.compile(r"print\(.*\)  # (.*)")
PORT = "9077"


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    runs: bool


class Step(NamedTuple):
    """One command of a page, and what the page shows below it."""

    command: str
    shown: str


def blocks_of(page: Path) -> list[Block]:
    found = _FENCE.finditer(page.read_text("utf-8"))
    return [Block(match["language"], match["text"], match["reason"] is None) for match in found]


def steps_of(block: Block) -> Iterator[Step]:
    """The commands of a block: `$ ` begins one and `> ` continues it; a block without `$ ` is one script."""
    if block.language == "python":
        shown = "\n".join(_PRINTED.findall(block.text))
        yield Step(f"python - <<'PYTHON'\n{block.text}PYTHON", shown)
    elif not block.text.startswith("$ "):
        yield Step(block.text, "...")
    else:
        for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
            command, *rest = part.split("\n")
            while rest and rest[0].startswith("> "):
                command += "\n" + rest.pop(0)[2:]
            yield Step(command, "\n".join(rest).strip("\n"))


def agrees(shown: str, printed: str) -> bool:
    """Whether a command printed what its page shows; `...` stands for anything."""
    pattern = ".*?".join(re.escape(_lined(part)) for part in shown.split("..."))
    return re.fullmatch(pattern, _lined(printed), re.S) is not None


def _lined(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


class Shell:
    """One bash in a home of its own, so that a page's later commands see what its earlier ones did."""

    def __init__(self, home: Path) -> None:
        self.port = str(_free_port())
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=home,
            env={"HOME": str(home), "PATH": path, "HOLDFAST_PORT": self.port, "LANG": "C.UTF-8"},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, command: str) -> tuple[str, int]:
        """What a command prints, and its exit code. One that ends with & is waited for until its port is open."""
        script = command.replace(PORT, self.port).rstrip()
        if script.endswith("&"):
            script = f"{script[:-1]} > served.log 2>&1 &\n{_UNTIL_OPEN.format(port=self.port)}"
        self._write(f'{script}\n{{ _code=$?; echo; echo "-- exit $_code"; (exit $_code); }}\n')
        lines: list[str] = []
        while not (found := re.fullmatch(r"-- exit (\d+)\n", line := self._read())):
            assert line, f"The shell ended in: {command}\n{''.join(lines)}"
            lines.append(line)
        return "".join(lines).replace(self.port, PORT), int(found[1])

    def _write(self, text: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(text)
        self._bash.stdin.flush()

    def _read(self) -> str:
        assert self._bash.stdout is not None
        return self._bash.stdout.readline()

    def close(self) -> None:
        """End what was left running."""
        self._write("kill $(jobs -p) 2> /dev/null; wait; exit\n")
        self._bash.wait(20)


_UNTIL_OPEN = "for _ in {{1..400}}; do (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null && break; sleep 0.05; done"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
