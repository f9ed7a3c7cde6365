"""`python3 hack/prose` finds wording in every kind of file, and says on which line."""

from pathlib import Path

import pytest

from prose import check, extract

# Only developers use it.
pytestmark = pytest.mark.nightly

FILES = {
    "a.rs": '//! Fine.\n\n/// It costs `dear`\n/// and is dear.\nfn f() { fail("a dear one is here") }\nconst DATA: &[u8] = b"it is a dear one";\n',
    "a.py": '"""Fine.\n\nA dear page.\n"""\n\nNAME = "dear"  # a dear one\nTEXT = "it is a dear one"\n',
    "a.js": "// Fine.\nconst a = 1; // a dear one\n",
    "a.yaml": "# Fine.\na: dear # a dear one\nsummary: a dear\n  and dear one\n",
    "a.toml": 'a = "dear" # a dear one\n',
    "a.tpl": '{{/* A dear\none */}}\n{{- fail (printf "is a dear one %s" .x) -}}\n',
    "dashboards/a.json": '{\n"title": "Dear panels"\n}\n',
    "Makefile": "# A dear one\na: ## Run a dear one\n\techo dear\n",
}
LINES = {
    "a.rs": [4, 5],
    "a.py": [3, 6, 7],
    "a.js": [2],
    "a.yaml": [2, 3, 4],
    "a.toml": [1],
    "a.tpl": [1, 3],
    "dashboards/a.json": [2],
    "Makefile": [1, 2],
}


@pytest.mark.parametrize("name", FILES)
def test_wording_is_found_where_it_is(tmp_path: Path, name: str) -> None:
    text = extract.markdown(name, FILES[name])
    (tmp_path / "text.md").write_text(text)
    found = check.findings(tmp_path)
    assert [int(line.split(":")[1]) for line in found] == LINES[name]


def test_long_sentences_and_questions_in_headings_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"# Is it?\n\n{'word ' * 31}.\n\n{'word ' * 30}.\n")
    assert {line.split(":")[1] for line in check.findings(tmp_path)} == {"1", "3"}


@pytest.mark.parametrize(
    "source",
    [
        'CONFIGURATION = """\\\nlisten dear here\nserve a dear one\n"""\n',
        'MOUNT = "31 30 0:27 / /sys dear rw - a dear one rw,cpu"\n',
        f"a = 1  # {'word ' * 20}\nb = 2  # {'word ' * 20}\n",
        f"# {'word ' * 20}.\n# hyper {'word ' * 20}.\n",
    ],
    ids=["configuration", "data", "comments behind code", "a name begins a sentence"],
)
def test_code_is_not_read_as_prose(tmp_path: Path, source: str) -> None:
    (tmp_path / "text.md").write_text(extract.markdown("a.py", source))
    assert check.findings(tmp_path) == []


def test_plain_english_passes(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Settings\n\nA lane serves `dear` requests.\n")
    assert check.findings(tmp_path) == []
