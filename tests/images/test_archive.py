"""Archives of hack/images, read by skopeo."""

import os
from pathlib import Path

import pytest

from images import archive, layer
from images.layer import File, Link
from support import archives
from tools.errors import ToolError

FILES = [File("/program", b"#!", 0o555), File("/etc/passwd", b"root"), Link("/etc/link", "passwd")]

# Only releases and developers write archives.
pytestmark = pytest.mark.nightly


def test_skopeo_reads_name_platform_labels_and_configuration(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES)
    seen = archives.inspect(built.file)
    assert seen["Digest"] == built.digest
    assert (seen["Architecture"], seen["Os"]) == ("amd64", "linux")
    assert seen["Created"] == "2023-11-14T22:13:20Z"
    assert seen["Labels"] == archives.LABELS
    config = archives.inspect(built.file, "--config")["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["/program"]
    assert config["ExposedPorts"] == {"8080/tcp": {}}


def test_every_digest_of_an_archive_is_right(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES, [File("/more", b"more")])
    # Blobs are verified; files of the copy are named by digest.
    copy = ["copy", "--dest-decompress", f"oci-archive:{built.file}", f"dir:{tmp_path / 'copy'}"]
    archives.skopeo("amd64", *copy)
    copied = {f"sha256:{file.name}" for file in (tmp_path / "copy").iterdir()}
    diff_ids = archives.inspect(built.file, "--config")["rootfs"]["diff_ids"]
    assert len(diff_ids) == 2
    assert set(diff_ids) <= copied


def test_the_docker_form_of_an_archive_is_the_same_image(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES)
    docker = archives.skopeo("amd64", "inspect", "--config", f"docker-archive:{built.file}")
    assert docker == archives.skopeo("amd64", "inspect", "--config", f"oci-archive:{built.file}")


def test_a_tag_may_contain_the_digest(tmp_path: Path) -> None:
    image = archives.image(tag="1-{digest}-x")
    built = archive.write(image, [FILES], tmp_path / "a.tar")
    digits = built.digest.removeprefix("sha256:")[:12]
    assert built.image.tag == archive.read(built.file).image.tag == f"1-{digits}-x"
    assert built.digest == archives.write(tmp_path / "b.tar", FILES).digest


def test_files_belong_to_root_and_nobody_may_change_them(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("content")
    source.chmod(0o777)
    built = archives.write(tmp_path / "a.tar", [layer.program("/bin/program", source)])
    (members,) = ([*each] for each in archive.layers(built.file))
    found = {member.name: member for member in members}
    assert list(found) == ["bin", "bin/program"]
    assert found["bin"].isdir()
    assert (found["bin"].mode, found["bin/program"].mode) == (0o755, 0o555)
    for member in members:
        assert (member.uid, member.gid, member.mtime) == (0, 0, 1_700_000_000)


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    first = archives.write(tmp_path / "a.tar", FILES)
    copied = tmp_path / "program"
    copied.write_bytes(b"#!")
    os.utime(copied, (1, 1))
    again = [*reversed(FILES[1:]), layer.program("/program", copied)]
    second = archives.write(tmp_path / "b.tar", again)
    assert second.digest == first.digest
    assert second.file.read_bytes() == first.file.read_bytes()


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([File("program", b"")], "not a plain absolute path"),
        ([File("/a/../b", b"")], "not a plain absolute path"),
        ([File("/a", b""), File("/a", b"")], "twice"),
        ([File("/a", b""), File("/a/b", b"")], "not a folder"),
    ],
)
def test_invalid_paths_are_rejected(tmp_path: Path, entries: list[layer.Entry], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        archives.write(tmp_path / "a.tar", entries)
    assert list(tmp_path.iterdir()) == []
