#!/usr/bin/env python3
"""Measures code size: lines, wire types, JSON pointers, files with a kind, discouraged terms, long functions.

  tests/counts.py                    a table of this tree
  tests/counts.py --against COMMIT   compared with that commit
  tests/counts.py --files WHAT       the files behind one row, largest first: pointers, kinds, words, functions, files

Excludes tests: files tests.rs, folders tests/, and modules under #[cfg(test)]. Reads text without parsing Rust.
"""

import argparse
import collections
import io
import os
import re
import subprocess
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FACES = ("api", "dashboard", "cli", "report", "suite", "client")
# A variant; excludes `Kind::ALL`.
KIND = re.compile(r"\bKind::[A-Z][a-z]\w*")
WIRE = re.compile(r"derive\([^)]*\b(?:Serialize|Deserialize|ToSchema)\b[^)]*\)")
POINTER = re.compile(r"\.pointer(?:_mut)?\(|\.get\(\"(?!/)|\w\[\"|\)\[\"")
FN = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn (\w+)")
# Discouraged terms as parts of identifiers. The terms of the pages have other meanings elsewhere.
OLD = "turns brake brakes economy reach reached patience standing draw drawn fold folded folds marks twice ahead told".split()
OLD_IN_PAGES = "door site visitor strip machinery troubles".split()
# External names: the standard library, serde's trait, HTTP's terms for the origin of a request.
OF_OTHERS = "fold try_fold strip_prefix strip_suffix Visitor CrossSite check_site is_same_site same_site".split()
TEXT = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"|\'(?:\\.|[^\'\\])\'', re.DOTALL)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def tree(commit):
    """All Rust files of src and crates: path -> text."""
    if commit is None:
        found = {}
        for top in ("src", "crates"):
            for folder, _, names in os.walk(os.path.join(ROOT, top)):
                for name in names:
                    if name.endswith(".rs"):
                        path = os.path.join(folder, name)
                        with open(path, encoding="utf-8") as file:
                            found[os.path.relpath(path, ROOT)] = file.read()
        return found
    held = subprocess.run(["git", "-C", ROOT, "ls-tree", "--name-only", commit, "src", "crates"], check=True, capture_output=True)
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit, *held.stdout.decode().split()], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = [member for member in tar.getmembers() if member.isfile() and member.name.endswith(".rs")]
        return {member.name: tar.extractfile(member).read().decode() for member in files}


def is_test(path):
    parts = path.split("/")
    return "tests" in parts or parts[-1] == "tests.rs"


def without_tests(text):
    kept, lines, at = [], text.splitlines(), 0
    while at < len(lines):
        if lines[at].strip() == "#[cfg(test)]" and at + 1 < len(lines):
            indent = re.match(r"\s*", lines[at]).group()
            head = lines[at + 1]
            if re.match(r"\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{", head):
                at += 2
                while at < len(lines) and lines[at] != indent + "}":
                    at += 1
                at += 1
                continue
            if re.match(r"\s*(?:pub(?:\([^)]*\))? )?(?:mod \w+|use .*);", head):
                at += 2
                continue
        kept.append(lines[at])
        at += 1
    return kept


def code(lines):
    """Lines without comments and string literals, which may span several lines."""
    bare = TEXT.sub(lambda found: '""' + "\n" * found.group().count("\n"), "\n".join(lines))
    return bare.split("\n")


def long_functions(lines):
    at, found = 0, []
    while at < len(lines):
        head = FN.match(lines[at])
        if head and not lines[at].rstrip().endswith(";"):
            end = at
            while end < len(lines) and lines[end] not in (head.group(1) + "}",) and not (
                end == at and lines[end].rstrip().endswith("}")
            ):
                end += 1
            if end - at + 1 > 60:
                found.append((head.group(2), end - at + 1))
        at += 1
    return found


def count(files):
    """All numbers of one tree: rows of the table, and the files behind some of them."""
    rows, behind = [], collections.defaultdict(collections.Counter)
    lines_of, types, names = collections.Counter(), collections.Counter(), collections.Counter()
    for path, text in sorted(files.items()):
        if is_test(path):
            continue
        lines = without_tests(text)
        parts = path.split("/")
        module = parts[1] if len(parts) > 2 else "(root)"
        face = module.removeprefix("gavel-")
        lines_of[parts[0], module] += len(lines)
        if len(lines) > 400:
            behind["files"][path] = len(lines)
        for name, length in long_functions(lines):
            behind["functions"][f"{path} {name}"] = length
        for line, bare in zip(lines, code(lines), strict=True):
            if face in FACES:
                types[face] += len(WIRE.findall(line))
                behind["pointers"][path] += len(POINTER.findall(line))
            if KIND.search(bare) and module not in ("score", "gavel-rules"):
                behind["kinds"][path] += 1
            for name in (name for name in NAME.findall(bare) if name not in OF_OTHERS):
                for part in PART.findall(name):
                    if part.lower() in OLD or (face in FACES and part.lower() in OLD_IN_PAGES):
                        behind["words"][path] += 1
                        names[part.lower()] += 1
    for what in behind:
        behind[what] += collections.Counter()
    for top in ("src", "crates"):
        rows.append((f"lines of {top} without tests", sum(lines for (at, _), lines in lines_of.items() if at == top)))
        rows += [(f"  {module}", lines) for (at, module), lines in lines_of.most_common() if at == top]
    rows.append(("lines of both together", sum(lines_of.values())))
    rows.append(("types of api, dashboard, cli, report, suite, client that are read or written", sum(types.values())))
    for module in FACES:
        rows.append((f"  {module}", types[module]))
    rows.append(("JSON pointers there", sum(behind["pointers"].values())))
    for module in FACES:
        rows.append((f"  {module}", sum(n for path, n in behind["pointers"].items() if path.startswith((f"src/{module}/", f"src/{module}.rs", f"crates/gavel-{module}/")))))
    rows.append(("files outside score that name a kind", len(behind["kinds"])))
    rows.append(("identifiers with a word that has a better one", sum(behind["words"].values())))
    for word, n in names.most_common():
        rows.append((f"  {word}", n))
    rows.append(("functions over 60 lines", len(behind["functions"])))
    rows.append(("files over 400 lines", len(behind["files"])))
    return rows, behind


def headed(rows):
    """Rows with their headings, because a module appears under several."""
    head = ""
    for name, n in rows:
        head = head if name.startswith(" ") else name
        yield (head, name), n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--files", choices=["pointers", "kinds", "words", "functions", "files"])
    asked = parser.parse_args()
    rows, behind = count(tree(None))
    if asked.files:
        for path, n in behind[asked.files].most_common():
            print(f"{n:6} {path}")
        return
    then = dict(headed(count(tree(asked.against))[0])) if asked.against else {}
    for (head, name), n in headed(rows):
        before = f"{then.get((head, name), 0):9,}" if asked.against else ""
        print(f"{before}{n:9,}  {name}")


if __name__ == "__main__":
    main()
