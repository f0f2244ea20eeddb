"""Every command by its words, former names included, without importing any of them."""

from functools import cache

from holdfast.kernel.registry.operation import Entry
from holdfast.operations import REGISTRY
from holdfast.surfaces.cli.help.commands import COMMANDS, CommandEntry
from holdfast.surfaces.cli.help.words import FOREIGN, PURPOSES, SYNONYMS

Path = tuple[str, ...]


Leaf = Entry | CommandEntry


class CommandTree:
    """The commands and groups by their words. A word can be both: `sync PEER` and `sync status`."""

    def __init__(self) -> None:
        entries = [entry for entry in REGISTRY.entries.values() if "cli" in entry.surfaces]
        self.visible: dict[Path, Leaf] = {entry.cli: entry for entry in entries}
        self.visible |= {tuple(words.split()): command for words, command in COMMANDS.items()}
        self.former = {tuple(name.split()): path for path, leaf in self.visible.items() for name in leaf.aliases}
        self.children = _children_of(self.visible)
        self._former_children = _children_of(self.former)

    def leaf(self, path: Path) -> Leaf | None:
        return self.visible.get(self.former.get(path, path))

    def is_group(self, path: Path) -> bool:
        return path in self.children or path in self._former_children

    def has(self, path: Path) -> bool:
        return self.leaf(path) is not None or self.is_group(path)

    def names(self, path: Path) -> list[str]:
        """List the visible commands of a group; those of a former group are its former names."""
        return self.children.get(path) or self._former_children.get(path, [])

    def summary(self, path: Path) -> str:
        leaf = self.leaf(path)
        if purpose := PURPOSES.get(" ".join(path)):
            return purpose
        return leaf.summary if leaf else self.former_purpose(path)

    def former_purpose(self, path: Path) -> str:
        """Describe a former group: `peers` is now `sync peers`."""
        now = {new[:-1] for former, new in self.former.items() if former[: len(path)] == path and len(new) > 1}
        return "Now: " + ", ".join(sorted(f"`holdfast {' '.join(one)}`" for one in now)) + "."

    def suggest(self, unknown: Path) -> list[str]:
        """Suggest commands for unknown words: those meant by a foreign word, else the nearest names."""
        from difflib import get_close_matches  # 1 ms that only an unknown command needs

        *group, word = unknown
        if not group and word in FOREIGN:
            return list(FOREIGN[word])
        known = [*self.children.get(tuple(group), ()), *self._former_children.get(tuple(group), ())]
        near = get_close_matches(word, known, n=2, cutoff=0.7)
        meant = [name for name in known if any({name, word} <= words for words in SYNONYMS)]
        found = [(*group, name) for name in near or meant]
        return list(dict.fromkeys(" ".join(self.former.get(path, path)) for path in found))


def _children_of(paths: dict[Path, Leaf] | dict[Path, Path]) -> dict[Path, list[str]]:
    found: dict[Path, dict[str, None]] = {}
    for path in paths:
        for depth in range(len(path)):
            found.setdefault(path[:depth], {})[path[depth]] = None
    return {path: list(names) for path, names in found.items()}


@cache
def command_tree() -> CommandTree:
    return CommandTree()
