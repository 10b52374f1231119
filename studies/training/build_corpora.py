"""Build the corpora of the sweeps from Debian's packages: documentation in three languages, code, dictionaries.

    python -m studies build_corpora corpora                                # the first three, 350 MB of packages
    python -m studies build_corpora corpora --only python                  # one of them
    python -m studies build_corpora corpora --only manuals --only c        # the large ones: more than 1 GB of text

Needs a Debian system with `apt-get` and `dpkg-deb`; nothing is installed, packages are only unpacked. Markup is
stripped, lines of prose that occurred before are dropped, paragraphs in another language too. `corpora/SOURCES.json`
holds the version, SHA-256 and licences of every package and the SHA-256 of every file written. The text has many
licences, most of them copyleft: it is built where it is used, and is not part of this project.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import html
import html.parser
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

# fmt: off
CORPORA = {
    "english": [
        "linux-doc-6.1", "python3.11-doc", "perl-doc", "postgresql-doc-15", "manpages", "manpages-dev",
        "libreoffice-help-en-us", "lilypond-doc-html", "git-doc", "gimp-help-en", "debian-handbook",
        "debian-policy", "debian-reference-en", "developers-reference", "maint-guide", "installation-guide-amd64",
        "aptitude-doc-en", "gnome-user-docs",
    ],
    "french": [
        "libreoffice-help-fr", "manpages-fr-dev", "manpages-fr", "lilypond-doc-html-fr", "gimp-help-fr",
        "debian-handbook", "debian-reference-fr", "gnome-user-docs", "installation-guide-amd64", "aptitude-doc-fr",
        "developers-reference-fr", "maint-guide-fr",
    ],
    "python": [
        "libpython3.11-stdlib", "libpython3.11-testsuite", "python3-django", "python3-numpy", "python3-scipy",
        "python3-sympy", "python3-twisted", "python3-sqlalchemy", "python3-pandas", "python3-matplotlib",
        "python3-networkx", "python3-docutils", "python3-sphinx", "python3-pygments", "python3-babel",
        "python3-jinja2", "python3-werkzeug", "python3-flask", "python3-requests", "python3-urllib3",
        "python3-setuptools", "python3-pip", "mercurial-common",
    ],
    "german": [
        "libreoffice-help-de", "manpages-de", "manpages-de-dev", "lilypond-doc-html-de", "gimp-help-de",
        "debian-handbook", "debian-reference-de", "gnome-user-docs", "installation-guide-amd64",
        "developers-reference-de", "maint-guide-de",
    ],
    "manuals": [
        "racket-doc", "erlang-doc", "python-sympy-doc", "python-sklearn-doc", "python-scipy-doc", "maxima-doc",
        "python-statsmodels-doc", "octave-doc", "singular-doc", "csound-doc", "wireshark-doc", "lammps-doc",
        "linuxcnc-doc-en", "povray-doc", "freedombox-doc-en", "debian-edu-doc-en", "python-django-doc", "db5.3-doc",
        "gnome-devel-docs", "zsh-doc", "bash-doc", "autoconf-doc", "gnuplot-doc", "apache2-doc", "ghc-doc",
        "qtbase5-doc-html",
    ],
    "dictionary": ["dict-gcide", "dict-wn", "dict-foldoc", "dict-jargon", "dict-vera", "dict-devil"],
    "c": ["linux-source-6.1"],
}
LANGUAGE = {"manuals": "english"}
"""The language of a corpus of prose whose name does not say it."""
FIRST = ("english", "french", "python")
"""What the recipes of the first sweeps need: built when nothing is asked for."""
# fmt: on
STOP_WORDS = {
    name: frozenset(re.findall(r"\w+", words))
    for name, words in (
        ("english", "the of and to in is for that are with this be as by on it from or not you can if"),
        ("french", "le la les de des du et en un une est que pour dans qui par sur pas avec au ce sont ou"),
        ("german", "der die das und ist nicht ein eine von zu mit den des werden wird auf im sie wenn oder als kann"),
    )
}
SHORTEST_DOCUMENT = 400  # characters
DICTIONARY_DOCUMENT = 20_000  # characters
FONTS = frozenset({"B", "I", "BR", "IR", "RB", "RI", "BI", "IB", "SH", "SS", "SM"})  # macros with text to keep
PROSE = re.compile(r"\.(html?|xhtml|txt|rst|page|xml|[1-8])(\.gz)?$", re.IGNORECASE)


class _Text(html.parser.HTMLParser):
    """The text of a page, one paragraph per line."""

    SKIPPED = frozenset({"script", "style", "head", "nav"})
    BLOCKS = frozenset(
        re.findall(r"\w+", "p div li dd dt tr td h1 h2 h3 h4 h5 h6 pre br title section table item para note")
    )

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipping = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count what is skipped, and end paragraphs."""
        self._skipping += tag in self.SKIPPED
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        """Count what is skipped, and end paragraphs."""
        self._skipping = max(0, self._skipping - (tag in self.SKIPPED))
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        """Keep text."""
        if not self._skipping:
            self.parts.append(data)


def from_markup(content: str) -> str:
    """Return the text of HTML or XML."""
    parser = _Text()
    parser.feed(content)
    parser.close()
    return "".join(parser.parts)


def from_manual(content: str) -> str:
    """Return the text of a manual page, without its macros."""
    lines = []
    for line in content.splitlines():
        if line.startswith(('.\\"', "'")):
            continue
        if line.startswith("."):
            macro, _, rest = line[1:].partition(" ")
            if macro in ("SH", "SS", "TP", "PP", "P", "IP", "LP"):
                lines.append("")
            line = (
                rest.replace('"', "")
                if macro in ("B", "I", "BR", "IR", "RB", "RI", "BI", "IB", "SH", "SS", "SM")
                else ""
            )
        lines.append(re.sub(r"\\f(\[\w*\]|\(..|.)|\\[&%/,|^]|\\s[-+]?\d", "", line))
    text = "\n".join(lines)
    for code, letter in (
        ("\\-", "-"),
        ("\\(aq", "'"),
        ("\\(dq", '"'),
        ("\\(em", "-"),
        ("\\(co", "(c)"),
        ("\\e", "\\"),
    ):
        text = text.replace(code, letter)
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)


def paragraphs_in(language: str, text: str, seen: set[bytes]) -> Iterator[str]:
    """Yield the paragraphs of a text that are in a language and did not occur before."""
    for line in text.splitlines():
        line = re.sub(r"\s+", " ", html.unescape(line)).strip()
        words = re.findall(r"[a-zàâäçéèêëîïôöûùüßœ']+", line.lower())
        if not words:
            continue
        if len(words) >= 8:
            # German is looked for in the German corpus only: the first corpora stay what they were.
            counts = {
                name: sum(word in STOP_WORDS[name] for word in words)
                for name in dict.fromkeys(("english", "french", language))
            }
            if max(counts.values()) and counts[language] < max(counts.values()):
                continue
        key = hashlib.sha256(line.encode()).digest()[:12]
        if len(line) >= 20 and key in seen:
            continue
        seen.add(key)
        yield line


def prose(root: Path, language: str, seen: set[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the documents of an unpacked package, as (group, text)."""
    language = LANGUAGE.get(language, language)
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.is_symlink() or not PROSE.search(path.name) or "/copyright" in str(path):
            continue
        raw = path.read_bytes()
        try:
            content = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
        except (OSError, UnicodeDecodeError):  # fonts, old encodings
            continue
        name = path.name.removesuffix(".gz").lower()
        if re.search(r"\.[1-8]$", name):
            content = from_manual(content)
        elif name.endswith((".html", ".htm", ".xhtml", ".page", ".xml")):
            content = from_markup(content)
        else:
            content = re.sub(r"(?<=\S)\n(?=\S)", " ", content)
        text = "\n".join(paragraphs_in(language, content, seen))
        words = re.findall(r"\w+", text.lower())
        common = sum(word in STOP_WORDS[language] for word in words)
        if len(text) >= SHORTEST_DOCUMENT and common >= 0.1 * len(words):
            # One page in two editions, languages or formats is one group: it stays on one side of the split.
            yield re.sub(r"(\.[a-z]{2})?\.\w+$", "", name), text


def code(root: Path, seen: set[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the Python files of an unpacked package, as (group, text), each content once."""
    for path in sorted(root.rglob("*.py")):
        if path.is_file() and not path.is_symlink() and (content := _new_code(path.read_bytes(), seen)):
            yield path.stem, content


def c_code(root: Path, seen: set[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the C files of the source archives of an unpacked package, as (group, text), each content once.

    A driver and its header, often of one name, are one group.
    """
    for archive in sorted(root.rglob("*.tar.*")):
        with tarfile.open(archive) as files:
            for member in files:
                if member.isfile() and member.name.endswith((".c", ".h")):
                    file = files.extractfile(member)
                    if file and (content := _new_code(file.read(), seen)):
                        yield Path(member.name).stem, content


def _new_code(raw: bytes, seen: set[bytes]) -> str | None:
    """Return the content of a file of code, or nothing if it occurred before or is no document."""
    try:
        content = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    key = hashlib.sha256(re.sub(r"\s+", "", content).encode()).digest()
    if not SHORTEST_DOCUMENT <= len(content) <= 1_000_000 or key in seen:
        return None
    seen.add(key)
    return content


def dictionary(root: Path, seen: set[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the entries of a dictionary in the format of dictd, many to a document, as (group, text)."""
    for path in sorted(root.rglob("*.dict.dz")):
        content = gzip.decompress(path.read_bytes()).decode("utf-8", errors="replace")
        # An entry begins at the left margin; a document is a run of entries, so that one word stays on one side.
        entries, size, number = [], 0, 0
        for entry in re.split(r"\n(?=\S)", content):
            text = re.sub(r"[ \t]+", " ", re.sub(r"\s*\n\s*", " ", entry)).strip()
            key = hashlib.sha256(text.encode()).digest()[:12]
            if text and key not in seen:
                seen.add(key)
                entries.append(text)
                size += len(text)
            if size >= DICTIONARY_DOCUMENT:
                yield f"{path.stem}-{number}", "\n".join(entries)
                entries, size, number = [], 0, number + 1
        if size >= SHORTEST_DOCUMENT:
            yield f"{path.stem}-{number}", "\n".join(entries)


def documents_of(corpus: str, root: Path, seen: set[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the documents of an unpacked package, as (group, text), by the kind of its corpus."""
    readers = {"python": code, "c": c_code, "dictionary": dictionary}
    return readers[corpus](root, seen) if corpus in readers else prose(root, corpus, seen)


def fetch(package: str, folder: Path) -> Path | None:
    """Download one package; nothing if this release of the system does not have it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (found := sorted(folder.glob(f"{package}_*.deb"))):
        subprocess.run(["apt-get", "-qq", "download", package], cwd=folder, capture_output=True, check=False)
        found = sorted(folder.glob(f"{package}_*.deb"))
    return found[-1] if found else None


def licences(root: Path, package: str) -> list[str]:
    """Return the licences that a package's copyright file names."""
    path = root / "usr" / "share" / "doc" / package / "copyright"
    if not path.is_file():
        return []
    found = re.findall(r"^License:\s*(\S.*)$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return sorted({name.strip() for name in found})


def build(corpus: str, target: Path, packages: Path) -> list[dict[str, object]]:
    """Write one corpus, a JSON Lines file per package, and return what it was made of."""
    seen: set[bytes] = set()
    sources = []
    for package in CORPORA[corpus]:
        archive = fetch(package, packages)
        if archive is None:
            print(f"{corpus}: {package} is not available here, left out", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            subprocess.run(["dpkg-deb", "-x", str(archive), folder], check=True)
            documents = documents_of(corpus, root, seen)
            path = target / corpus / f"{package}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            count = size = 0
            with path.open("w", encoding="utf-8") as file:
                for group, text in documents:
                    file.write(json.dumps({"group": group, "text": text}, ensure_ascii=False) + "\n")
                    count, size = count + 1, size + len(text.encode())
            named = licences(root, package)
        if not count:
            path.unlink()
        print(f"{corpus}: {package} {size / 1e6:.1f} MB, {count} documents", file=sys.stderr)
        sources.append(
            {
                "corpus": corpus,
                "package": package,
                "version": archive.name.split("_")[1],
                "archive_sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
                "licences": named,
                "documents": count,
                "bytes": size,
                "text_sha256": hashlib.sha256(path.read_bytes()).hexdigest() if count else None,
            }
        )
    return sources


def main() -> None:
    """Build the corpora that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, help="the folder to write to")
    parser.add_argument("--only", choices=sorted(CORPORA), action="append", help="build only this one; may be repeated")
    parser.add_argument("--packages", type=Path, help="where packages are kept [default: TARGET/packages]")
    asked = parser.parse_args()
    sources: list[dict[str, object]] = []
    for corpus in asked.only or FIRST:
        sources += build(corpus, asked.target, asked.packages or asked.target / "packages")
    (asked.target / "SOURCES.json").write_text(json.dumps(sources, indent=1) + "\n", encoding="utf-8")
    for corpus in asked.only or FIRST:
        size = sum(int(str(entry["bytes"])) for entry in sources if entry["corpus"] == corpus)
        print(f"{corpus}: {size / 1e6:.1f} MB in {asked.target / corpus}")


if __name__ == "__main__":
    main()
