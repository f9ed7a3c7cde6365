"""docs/problems.md, against what the services say."""

import re

from support import REPOSITORY


def sources() -> str:
    """The Rust of all services, without comments and tests."""
    texts = [path.read_text() for path in sorted(REPOSITORY.glob("services/*/src/**/*.rs"))]
    code = [
        re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, flags=re.MULTILINE)[0] for text in texts
    ]
    return re.sub("//.*", "", "\n".join(code))


def slugs_by_name(rust: str) -> set[str]:
    """Slugs that are passed to `Problem::new`, or chosen for it by a `match`."""
    passed = set(re.findall(r"Problem::new\(\s*[^,()]+,\s*([^\s,.()]+)", rust))
    literal = {each.strip('"') for each in passed if each.startswith('"')}
    assert {each for each in passed if not each.startswith('"')} == {"slug"}
    chosen = re.findall(r"let \([^)]*\bslug\b[^)]*\) = match .*?\n\s*\};", rust, re.DOTALL)
    return literal | set(re.findall(r'[(\s]"([a-z]+(?:-[a-z]+)*)"[,)]', "".join(chosen)))


def slugs_by_status(rust: str) -> set[str]:
    """Slugs that are the phrases of statuses, also of those that the crate of files gives."""
    given = re.findall(r"(?:Problem::from\(|\bstatus\(|let status = )StatusCode::(\w+)", rust)
    no_errors = {"NOT_MODIFIED", "PERMANENT_REDIRECT"}
    return {name.lower().replace("_", "-") for name in set(given) - no_errors}


def test_the_docs_list_every_problem() -> None:
    rust = sources()
    page = (REPOSITORY / "docs/problems.md").read_text()
    documented = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == slugs_by_name(rust) | slugs_by_status(rust)
