"""Checks the links in all Markdown files, and builds a site from the files that docs/SUMMARY.md
lists.

python3 hack/book.py check python3 hack/book.py build [--repository URL] # into .run/book/site

Pages keep their paths, so links between them still work. docs/index.md becomes the first page, and
the README becomes an overview. Links to other files point to the repository, or become plain text
without --repository. docs/next.toml lists the pages that appear at the foot of each page as *Next*
and *Background*.
"""

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = Path("docs/SUMMARY.md")
FEET = Path("docs/next.toml")
WORK = ROOT / ".run/book"
MOVED = {Path("docs/index.md"): Path("index.md"), Path("README.md"): Path("overview.md")}

CODE = re.compile(r"^( *)(```|~~~).*?^\1\2[^\n]*$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\(|\b(?:src|srcset|href)=\")([^\s)\"]+)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#* *$", re.MULTILINE)
NOWHERE = "https://no-repository.invalid"
EXTERNAL = re.compile(r"[a-z]+:|#$")


def main(arguments: list[str]) -> int:
    """The status is 1 if a link is broken."""
    parser = argparse.ArgumentParser(
        prog="python3 hack/book.py", description=__doc__.split("\n\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("check", help="check the links of all Markdown files")
    build = commands.add_parser("build", help="check the pages and build the website")
    build.add_argument(
        "--repository", metavar="URL", help="repository for links to files that are not pages"
    )
    options = parser.parse_args(arguments)
    found = list(problems(sources()))
    for line in found:
        print(line, file=sys.stderr)
    if found:
        return 1
    if options.command == "build":
        stage(options.repository)
        subprocess.run([*mdbook(), "build", WORK], check=True)
        for page in pages():
            finish(page)
    return 0


def sources() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = (Path(name) for name in sorted(set(listed.splitlines())))
    # Links in a template belong to the service created from it.
    return [file for file in files if (ROOT / file).is_file() and "templates" not in file.parts]


def problems(files: list[Path]) -> Iterator[str]:
    """Links without a target, and pages of docs that the summary lacks."""
    for page in files:
        text = blank((ROOT / page).read_text())
        for match in LINK.finditer(text):
            wrong = broken(page, match[2])
            if wrong:
                yield f"{page}:{text.count(chr(10), 0, match.start()) + 1}: {match[2]}: {wrong}"
    listed = set(pages())
    for page in files:
        if page.parts[0] == "docs" and page != SUMMARY and page not in listed:
            yield f"{SUMMARY}: {page} is not listed"
    feet = following()
    for page in sorted(listed - set(feet)):
        yield f"{FEET}: {page} has no next pages"
    for page, ends in feet.items():
        for wrong in sorted({page, *ends} - listed):
            yield f"{FEET}: {wrong} is not in {SUMMARY}"
        if page in ends or len(set(ends)) != 2:
            yield f"{FEET}: {page} needs two other pages: one to read next, and one for the background"


def blank(text: str) -> str:
    """Keeps the lines but drops code, which contains no links."""
    return CODE.sub(lambda code: "\n" * code[0].count("\n") or "code", text)


def broken(page: Path, link: str) -> str | None:
    """Reason why a link is broken; None if it is external or its target exists."""
    if EXTERNAL.match(link):
        return None
    path, _, anchor = link.partition("#")
    file = ROOT / target(page, path) if path else ROOT / page
    if not file.exists():
        return "no such file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return "no such heading"
    return None


def target(page: Path, path: str) -> Path:
    return Path(os.path.normpath(page.parent / path))


def anchors(file: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mdBook make them."""
    found: dict[str, int] = {}
    for heading in HEADING.findall(
        re.sub(r"^( *)(```|~~~).*?^\1\2", "", file.read_text(), flags=re.DOTALL | re.MULTILINE)
    ):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        if found[name]:
            found[f"{name}-{found[name]}"] = 0
    return set(found)


def pages() -> list[Path]:
    return [target(SUMMARY, match[2]) for match in LINK.finditer((ROOT / SUMMARY).read_text())]


def following() -> dict[Path, tuple[Path, ...]]:
    read = tomllib.loads((ROOT / FEET).read_text())
    return {
        target(FEET, page): tuple(target(FEET, end) for end in ends)
        for part in read.values()
        for page, ends in part.items()
    }


def titles() -> dict[Path, str]:
    found = re.findall(r"\[([^\]]*)\]\(([^)]*)\)", (ROOT / SUMMARY).read_text())
    return {target(SUMMARY, path): title for title, path in found}


def stage(repository: str | None) -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    own = set(pages())
    pictures: set[Path] = set()
    feet, names = following(), titles()
    for page in [*own, SUMMARY]:
        text = (ROOT / page).read_text()
        if page != SUMMARY:
            ends = [f"[{names[end]}]({os.path.relpath(end, page.parent)})" for end in feet[page]]
            text += f"\n---\n\n*Next:* {ends[0]} · *Background:* {ends[1]}\n"
        text = rewritten(page, text, own, pictures, repository)
        place = WORK / "src" / ("SUMMARY.md" if page == SUMMARY else staged(page))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for picture in pictures:
        (WORK / "src" / picture).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / picture, WORK / "src" / picture)
    config = (ROOT / "docs/book.toml").read_text()
    config = config.replace("[build]\n", '[build]\nbuild-dir = "site"\n')
    if repository:
        config = config.replace(
            "[output.html]\n", f'[output.html]\ngit-repository-url = "{repository}"\n'
        )
    shutil.copy(ROOT / "docs/site.css", WORK)
    (WORK / "book.toml").write_text(config)


def staged(page: Path) -> Path:
    """The page's path on the site: a README becomes the index of its folder."""
    return MOVED.get(page) or (page.with_name("index.md") if page.name == "README.md" else page)


def rewritten(
    page: Path, text: str, own: set[Path], pictures: set[Path], repository: str | None
) -> str:
    """The page's text with the site's links; collects the pictures."""
    here = Path() if page == SUMMARY else staged(page).parent

    def link(match: re.Match) -> str:
        path, mark, anchor = match[2].partition("#")
        if EXTERNAL.match(match[2]) or not path:
            return match[0]
        file = target(page, path)
        if file in own:
            return match[1] + os.path.relpath(staged(file), here) + mark + anchor
        if file.suffix in (".svg", ".png"):
            pictures.add(file)
            return match[1] + os.path.relpath(file, here)
        # `finish` removes links without a target.
        return f"{match[1]}{repository or NOWHERE}/blob/main/{file}{mark}{anchor}"

    # Code stays unchanged.
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(link, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(link, text[end:])])


def finish(page: Path) -> None:
    file = WORK / "site" / staged(page).with_suffix(".html")
    text = file.read_text()
    main = text.partition("<main>")[2]
    opening = re.search(r"<p>(?:<em>[\w-]+\.</em> )?(.*?)</p>", main, re.DOTALL)
    plain = " ".join(html.unescape(re.sub(r"<[^>]*>", "", opening[1])).split()) if opening else ""
    if plain:
        short = html.escape(plain if len(plain) < 160 else plain[:157].rpartition(" ")[0] + " …")
        text = re.sub(
            r'(<meta name="description" content=")[^"]*', lambda it: it[1] + short, text, count=1
        )
    text = re.sub(rf'<a href="{NOWHERE}[^"]*">(.*?)</a>', r"\1", text, flags=re.DOTALL)
    file.write_text(re.sub(r"<table>.*?</table>", labelled, text, flags=re.DOTALL))


def labelled(table: re.Match) -> str:
    """Adds the name of its column to each cell. Phones show the name before the cell."""
    names = [
        html.escape(html.unescape(re.sub(r"<[^>]*>", " ", name)).strip())
        for name in re.findall(r"<th\b[^>]*>(.*?)</th>", table[0], re.DOTALL)
    ]

    def row(match: re.Match) -> str:
        cells = iter(names)
        return re.sub(r"<td", lambda _: f'<td data-label="{next(cells, "")}"', match[0])

    return re.sub(r"<tr>.*?</tr>", row, table[0], flags=re.DOTALL)


def mdbook() -> list[str]:
    return [sys.executable, str(ROOT / "hack/tools"), "run", "mdbook"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
