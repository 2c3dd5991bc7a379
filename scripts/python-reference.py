#!/usr/bin/env python3
"""Writes docs/reference/python-reference.md: what the docstrings of the Python package say.

    scripts/python-reference.py            to standard output
    scripts/python-reference.py --check    exits with 1 if the document is not that

The package `aquifer` has to be importable.
"""
import inspect
import re
import sys
import textwrap
from pathlib import Path

import aquifer

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "reference" / "python-reference.md"
HEAD = """# Reference of the Python package

Made of the package's docstrings by `scripts/python-reference.py`, which the tests hold it against. The ways in are
[python.md](../start/python.md), [kv-cache.md](../howto/kv-cache.md) and [vectors.md](../howto/vectors.md).
"""
COLUMNS = 118
# What NumPy's protocols and Python's operators call.
HIDDEN = re.compile(r"_")
# Beside functions and classes of the package itself.
MODULES = {"aquifer.llama": ["Cache"], "aquifer.sglang": ["Storage"]}


def signature(thing):
    try:
        text = str(inspect.signature(thing))
    except (ValueError, TypeError):
        text = getattr(thing, "__text_signature__", None) or "(...)"
    text = re.sub(r"\((self|cls|\$self)(, /)?(, )?", "(", text)
    return re.sub(r"<no value>|<no value|<_NoValueType[^>]*>", "...", text)


def document(thing):
    """A docstring with its table of arguments and its examples as blocks."""
    lines = inspect.getdoc(thing) or ""
    out, kind = [], None
    for line in lines.splitlines():
        is_blank, is_code = not line.strip(), line.startswith((">>>", "...")) or (kind == "code" and line.strip() and not line[0].isupper())
        is_table = bool(re.match(r"\w+ {2,}\S", line)) or (kind == "table" and line.startswith("   "))
        now = "code" if is_code else "table" if is_table else None
        if now != kind and not (kind and is_blank):
            if kind:
                out.append("```")
            if now:
                out.append("```python" if now == "code" else "```text")
            kind = now
        if is_blank and kind:
            out.append("```")
            kind = None
        out.append(line)
    if kind:
        out.append("```")
    return filled(out)


def filled(lines):
    """Paragraphs of text filled to the columns of documents; code as it is."""
    out, words, is_code = [], [], False
    for line in [*lines, ""]:
        is_code ^= line.startswith("```")
        if not is_code and line.strip() and not line.startswith("```"):
            words.append(line)
            continue
        out += textwrap.wrap(" ".join(words), COLUMNS, break_long_words=False, break_on_hyphens=False)
        words = []
        out.append(line)
    return "\n".join(out).rstrip("\n")


def members(thing):
    seen = {}
    for one in reversed(thing.__mro__):
        if one.__module__.startswith("aquifer"):
            own = {name: value for name, value in vars(one).items() if not HIDDEN.match(name)}
            # Those of compiled classes are in another order each time.
            seen.update(sorted(own.items()) if one.__module__ == "aquifer._core" else own)
    return seen


def described(name, thing):
    if not inspect.isclass(thing):
        yield f"## `{name}{signature(thing)}`\n\n{document(thing)}\n"
        return
    yield f"## class `{name}{signature(thing)}`\n\n{document(thing)}\n"
    for member, value in members(thing).items():
        text = document(value)
        if not text:
            continue
        call = f".{member}" + (signature(getattr(thing, member)) if callable(getattr(thing, member)) else "")
        yield f"**`{call}`**\n\n{text}\n"


def reference():
    parts = [HEAD]
    for name in sorted(aquifer.__all__, key=str.lower):
        parts += described(f"aquifer.{name}", getattr(aquifer, name))
    for module, names in MODULES.items():
        for name in names:
            parts += described(f"{module}.{name}", getattr(getattr(aquifer, module.split(".")[1]), name))
    return "\n".join(parts)


if __name__ == "__main__":
    text = reference()
    if sys.argv[1:] == ["--check"]:
        if DOCUMENT.read_text() != text:
            sys.exit(f"{DOCUMENT.name} is not what the docstrings say: run scripts/python-reference.py >docs/reference/{DOCUMENT.name}")
    else:
        sys.stdout.write(text)
