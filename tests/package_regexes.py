"""Find all regular expressions of the package, and texts that make bad ones slow."""

import ast
import importlib
import re
import re._constants as op
import re._parser as parser
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice, product
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any, NamedTuple

import holdfast

ROOT = Path(holdfast.__file__).parent
ANCHORED = frozenset(("match", "fullmatch"))
METHODS = ANCHORED | {"search", "finditer", "findall", "sub", "subn", "split"}
SMALL, LARGE = 16_384, 65_536
MAX_RATIO = 8.0
"""Maximum ratio of the times for a large and a small text: 4 is linear, 16 is quadratic."""
SUSPECT_RATIO = 6.0
"""Ratio of single measurements below which a pattern is linear."""
MAX_MEASURE_SECONDS = 0.02
"""Seconds for a small text above which smaller texts are used."""
NOISE = 0.002
"""Seconds for a large text below which measurements are noise."""


_MAYBE = re.compile(r"\bimport (re|regex)\b|\bfrom (re|regex|sre_\w+) |\bpattern=")
_HANDED_ON = {"_match": "match", "_read_while": "match"}
"""Functions that receive a pattern, and the method they call."""


class Pattern(NamedTuple):
    """A regular expression, its location, and the methods used with it."""

    place: str
    compiled: re.Pattern[Any]
    methods: frozenset[str] = METHODS

    @property
    def searches(self) -> bool:
        """Whether it is tried at every position."""
        return not self.methods <= ANCHORED


class Text(NamedTuple):
    """A text of any size: head, repeated unit, tail."""

    head: str
    unit: str
    tail: str = ""

    def of(self, size: int) -> str:
        room = max(0, size - len(self.head) - len(self.tail))
        return self.head + (self.unit * (room // len(self.unit) + 1))[:room] + self.tail


class Offender(NamedTuple):
    """A pattern with superlinear time."""

    pattern: Pattern
    method: str
    text: Text
    ratio: float
    seconds: float

    def __str__(self) -> str:
        said = f"{self.pattern.place} {self.method} of {self.pattern.compiled.pattern!r}"
        return f"{said}\n    on {self.text!r}: {self.ratio:.1f} times as long, {self.seconds:.3f} s"


class Call(NamedTuple):
    """A call that builds a regular expression at run time."""

    module: str
    function: str


@cache
def modules() -> tuple[tuple[ModuleType, ast.Module], ...]:
    """Return the modules that may have patterns, with their syntax trees."""
    return tuple(_modules())


def _modules() -> Iterator[tuple[ModuleType, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text("utf-8")
        if not _MAYBE.search(source):
            continue
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield importlib.import_module(name), ast.parse(source)


def find_written_patterns() -> tuple[list[Pattern], set[Call]]:
    """Return the patterns written in the source, and the calls that build others."""
    found, built, elsewhere = list[Pattern](), set[Call](), _uses_elsewhere()
    for module, tree in modules():
        names, uses = _names(tree), _uses(tree) | elsewhere
        for node, around in _nodes(tree, ()):
            place = f"{module.__name__}:{node.lineno}" if isinstance(node, ast.expr) else ""
            if isinstance(node, ast.Call) and (method := _method(node)):
                try:
                    expression, flags = _arguments(node, vars(module))
                except NameError:
                    built.add(Call(module.__name__.removeprefix("holdfast."), ".".join(around)))
                    continue
                methods = uses.get(names.get(node, ""), METHODS) if method == "compile" else frozenset((method,))
                found.append(Pattern(place, re.compile(expression, flags), methods))
            elif isinstance(node, ast.keyword) and node.arg == "pattern" and isinstance(node.value, ast.Constant):
                place = f"{module.__name__}:{node.value.lineno}"
                found.append(Pattern(place, re.compile(node.value.value), frozenset(("search",))))
    return found, built


def find_module_patterns() -> list[Pattern]:
    """Return the patterns that are module attributes, directly or inside containers."""
    found = [one for module, _ in modules() for one in _within(module.__name__, vars(module), 3)]
    return list({id(one.compiled): one for one in found}.values())


def strange_imports() -> list[str]:
    """Return imports of `re` under other names, whose calls would be missed."""
    return [
        f"{module.__name__}:{node.lineno}"
        for module, tree in modules()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and node.module in ("re", "regex", "sre_compile", "sre_parse"))
        or (isinstance(node, ast.Import) and any(one.name in ("re", "regex") and one.asname for one in node.names))
    ]


def _within(place: str, value: Any, depth: int) -> Iterator[Pattern]:
    if isinstance(value, re.Pattern):
        yield Pattern(place, value)
    elif depth and isinstance(value, tuple | list | frozenset | set):
        for item in value:
            yield from _within(place, item, depth - 1)
    elif depth and isinstance(value, dict):
        for name, item in value.items():
            if not str(name).startswith("__"):
                yield from _within(f"{place}.{name}", item, depth - 1)
    elif depth and hasattr(value, "__struct_fields__") and not isinstance(value, type):
        for name in value.__struct_fields__:
            yield from _within(f"{place}.{name}", getattr(value, name), depth - 1)


def _nodes(node: ast.AST, around: tuple[str, ...]) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Iterate over all nodes, with the names of enclosing classes and functions."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield child, around
        yield from _nodes(child, (*around, child.name) if named else around)


def _method(node: ast.Call) -> str | None:
    called = node.func
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "re":
        return called.attr if called.attr in METHODS | {"compile"} else None
    return None


_FLAGS_AT = {"compile": 1, "match": 2, "fullmatch": 2, "search": 2, "finditer": 2, "findall": 2}


def _arguments(node: ast.Call, known: dict[str, Any]) -> tuple[Any, int]:
    """Evaluate pattern and flags of a call; NameError if they are known only at run time."""
    given = {word.arg: word.value for word in node.keywords}
    at = _FLAGS_AT.get(_method(node) or "")
    flags = given.get("flags", node.args[at] if at and len(node.args) > at else None)
    expression = given.get("pattern", node.args[0] if node.args else None)
    assert expression is not None
    return _value(expression, known), int(_value(flags, known)) if flags else 0


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "<pattern>", "eval"), dict(known))


def _names(tree: ast.Module) -> dict[ast.AST, str]:
    """Map each creating call to the name of its pattern: a module attribute or the enclosing function."""
    found: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.value] = node.targets[0].id
        elif isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return) and node.body[-1].value:
            found[node.body[-1].value] = node.name
    return found


def _uses(tree: ast.Module) -> dict[str, frozenset[str]]:
    """Return the methods used with each name; a pattern that is passed on may be used with any."""
    found: dict[str, set[str]] = {}
    applied: dict[ast.AST, str] = {
        node.value.func if isinstance(node.value, ast.Call) else node.value: node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in METHODS
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _HANDED_ON:
            applied |= dict.fromkeys(node.args, _HANDED_ON[node.func.attr])
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, set()).update((applied[node],) if node in applied else METHODS)
    return {name: frozenset(methods) for name, methods in found.items()}


def _uses_elsewhere() -> dict[str, frozenset[str]]:
    """Return the methods that other modules use with a module's patterns."""
    found: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        for name, method in _APPLIED.findall(path.read_text("utf-8")):
            found.setdefault(name, set()).add(method)
    return {name: frozenset(methods) for name, methods in found.items()}


_APPLIED = re.compile(rf"\w\.([A-Z][A-Z_]*)\.({'|'.join(METHODS)})\(")


RUNS = (*"\n \t-*#.a[<\"'\\1,@:/={(`>_|", "\r\n", "a ", "\n ", " \n", "](", "1.", "a.", "é", "中", "。", "\u00a0")
SOLE = tuple(Text("", unit, tail) for unit in RUNS for tail in ("", "\x00", "a"))
PAIRS = tuple(Text("", one + other, "\x00") for one, other in product(RUNS, RUNS) if one != other)


def texts_against(expression: str | bytes, flags: int) -> list[Text]:
    """Build attack texts from a pattern: a prefix of each repetition, then many of its repeated parts."""
    tree = parser.parse(_text(expression), flags & ~re.UNICODE)
    return list(dict.fromkeys(text for lead, pump in _repetitions(tree.data, "") for text in _attacks(lead, pump)))


def _text(expression: str | bytes) -> str:
    return expression.decode("latin-1") if isinstance(expression, bytes) else expression


def _attacks(lead: str, pump: str) -> Iterator[Text]:
    """Yield one long repetition after its prefix, and many starts of one."""
    for before, tail in product(("", "\n"), ("", "\x00", "\n!")):
        yield Text(before + lead, pump, tail)
    for before, unit, tail in product(("", " ", "\n"), (lead, lead + pump, lead + 8 * pump), ("", "\n!")):
        if unit:
            yield Text("", before + unit, tail)


_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_LONG = 8
"""Repetitions with a lower maximum cannot be slow."""
_SIGNS = "a0 \n\t-_.A,:/'\"*#[](){}<>@=+!;|~`^$%&?\\é中。\r\x01"


def _repetitions(items: Any, lead: str) -> Iterator[tuple[str, str]]:
    """Yield the shortest prefix of each repetition, and samples of its repeated part."""
    for kind, value in items:
        if kind in _REPEATS:
            _, most, body = value
            if most >= _LONG:
                yield from ((lead, pump) for pump in _samples(body.data))
            yield from _repetitions(body.data, lead)
        elif kind is op.SUBPATTERN:
            yield from _repetitions(value[-1].data, lead)
        elif kind is op.ATOMIC_GROUP:
            yield from _repetitions(value.data, lead)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            yield from _repetitions(value[1].data, lead)
        elif kind is op.BRANCH:
            for branch in value[1]:
                yield from _repetitions(branch.data, lead)
        lead += _sample([(kind, value)])


def _samples(items: Any) -> list[str]:
    """Return samples of a sequence: several members of a character class, else the shortest match."""
    if len(items) == 1 and items[0][0] is op.IN:
        return list(islice(_members(items[0][1]), 4))
    if len(items) == 1 and items[0][0] is op.SUBPATTERN:
        return _samples(items[0][1][-1].data)
    if len(items) == 1 and items[0][0] is op.BRANCH:
        return [one for branch in items[0][1][1] for one in _samples(branch.data)]
    if len(items) == 1 and items[0][0] in (op.ANY, op.NOT_LITERAL):
        return ["a", " ", "\n"]
    return [made] if (made := _sample(items)) else []


def _sample(items: Any) -> str:
    made = ""
    for kind, value in items:
        if kind is op.LITERAL:
            made += chr(value)
        elif kind is op.NOT_LITERAL:
            made += next(sign for sign in _SIGNS if ord(sign) != value)
        elif kind is op.ANY:
            made += "a"
        elif kind is op.IN:
            made += next(_members(value), "")
        elif kind in _REPEATS:
            made += _sample(value[2].data) * min(value[0], 64)
        elif kind is op.SUBPATTERN:
            made += _sample(value[-1].data)
        elif kind is op.ATOMIC_GROUP:
            made += _sample(value.data)
        elif kind is op.BRANCH:
            made += _sample(value[1][0].data)
    return made


def _members(members: Any) -> Iterator[str]:
    """Yield members of a character class, common ones first."""
    negated = members[0][0] is op.NEGATE
    own = [chr(value if kind is op.LITERAL else value[0]) for kind, value in members if kind in (op.LITERAL, op.RANGE)]
    for sign in dict.fromkeys((*_SIGNS, *own)):
        if any(_is_of(sign, kind, value) for kind, value in members if kind is not op.NEGATE) != negated:
            yield sign


def _is_of(sign: str, kind: Any, value: Any) -> bool:
    if kind is op.LITERAL:
        return ord(sign) == value
    if kind is op.RANGE:
        return bool(value[0] <= ord(sign) <= value[1])
    belongs: dict[Any, Callable[[str], bool]] = {
        op.CATEGORY_DIGIT: str.isdigit,
        op.CATEGORY_SPACE: str.isspace,
        op.CATEGORY_WORD: lambda one: one.isalnum() or one == "_",
        op.CATEGORY_NOT_DIGIT: lambda one: not one.isdigit(),
        op.CATEGORY_NOT_SPACE: lambda one: not one.isspace(),
        op.CATEGORY_NOT_WORD: lambda one: not (one.isalnum() or one == "_"),
    }
    return belongs[value](sign)


def offenders(patterns: list[Pattern], texts: tuple[Text, ...], *, own: bool, screened_at: int) -> list[Offender]:
    """Return the superlinear patterns, each with the first text that shows it."""
    found = []
    for pattern in patterns:
        tried = (*texts, *texts_against(pattern.compiled.pattern, pattern.compiled.flags)) if own else texts
        found += list(islice(_slow(pattern, tried, screened_at), 1))
    return found


def _slow(pattern: Pattern, texts: tuple[Text, ...], screened_at: int) -> Iterator[Offender]:
    for text in texts:
        for method in _distinct_methods(pattern):
            if _may_be_slow(pattern, method, text, screened_at) and (found := _offence(pattern, method, text)):
                yield found


def _may_be_slow(pattern: Pattern, method: str, text: Text, size: int) -> bool:
    """Screen a pattern with single measurements: most are fast, and most others clearly linear."""
    if (seconds := _seconds(pattern, method, text, size)) < NOISE * size / LARGE:
        return False
    return seconds > SUSPECT_RATIO * _seconds(pattern, method, text, size // 4)


def _offence(pattern: Pattern, method: str, text: Text) -> Offender | None:
    small, large = SMALL, LARGE
    while _seconds(pattern, method, text, small) > MAX_MEASURE_SECONDS:
        small, large = small // 4, large // 4
    seconds = _best(pattern, method, text, large)
    ratio = seconds / _best(pattern, method, text, small)
    return Offender(pattern, method, text, ratio, seconds) if seconds > NOISE and ratio > MAX_RATIO else None


def _distinct_methods(pattern: Pattern) -> list[str]:
    """Return one method per kind of work."""
    found = ["finditer"] if pattern.searches else []
    return (
        found
        + [method for method in ("match", "fullmatch") if method in pattern.methods and not found]
        + (["fullmatch"] if found and "fullmatch" in pattern.methods else [])
    )


def _best(pattern: Pattern, method: str, text: Text, size: int) -> float:
    first = _seconds(pattern, method, text, size)
    return min(first, *(_seconds(pattern, method, text, size) for _ in range(4)))


def _seconds(pattern: Pattern, method: str, text: Text, size: int) -> float:
    """Measure the processor time."""
    made: Any = text.of(size)
    if isinstance(pattern.compiled.pattern, bytes):
        made = made.encode("utf-8")
    apply = getattr(pattern.compiled, method)
    start = process_time()
    result = apply(made)
    if method == "finditer":
        for _ in result:
            pass
    return process_time() - start
