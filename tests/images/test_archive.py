"""Archives of hack/images: what is in them, read by an OCI tool and by hack/images itself."""

import os
import tarfile
from pathlib import Path

import pytest

from images import index, layer, read, reproduce
from images.layer import File, Folder, Link
from support import archives
from tools.errors import ToolError

FILES = [File("/program", b"#!", 0o555), File("/etc/passwd", b"root"), Link("/etc/link", "passwd")]


def test_an_oci_tool_reads_what_was_written(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES)
    seen = archives.inspect(built.file)
    assert seen["Digest"] == built.digest
    assert (seen["Architecture"], seen["Os"]) == ("amd64", "linux")
    assert seen["Created"] == "2023-11-14T22:13:20Z"
    assert seen["Labels"] == archives.LABELS


def test_a_container_starts_the_program_as_a_user_without_rights(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES)
    config = archives.inspect(built.file, "--config")["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["/program"]
    assert config["ExposedPorts"] == {"8080/tcp": {}}


def test_an_oci_tool_copies_every_blob_of_an_archive(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES, [File("/more", b"more")])
    archives.skopeo("amd64", "copy", f"oci-archive:{built.file}", f"dir:{tmp_path / 'copied'}")
    copied = {file.name for file in (tmp_path / "copied").iterdir()}
    blobs = {digest.partition(":")[2] for digest in read.read(built.file).blobs}
    # The manifest is copied under a name of its own.
    assert blobs - {built.digest.partition(":")[2]} <= copied


def test_the_docker_form_of_an_archive_is_the_same_image(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES)
    docker = archives.skopeo("amd64", "inspect", "--config", f"docker-archive:{built.file}")
    assert docker == archives.skopeo("amd64", "inspect", "--config", f"oci-archive:{built.file}")


def test_containerd_and_others_find_the_name(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES)
    names = read.read(built.file).descriptor["annotations"]
    assert names["io.containerd.image.name"] == "docker.io/library/corelane-test:1.2.3"
    assert names["org.opencontainers.image.ref.name"] == "1.2.3"


def test_files_belong_to_root_and_nobody_may_change_them(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("content")
    source.chmod(0o777)
    built = archives.write(tmp_path / "a.tar", [layer.program("/bin/program", source)])
    with read.read(built.file).layer(0) as tar:
        found = {member.name: member for member in tar}
    assert list(found) == ["bin", "bin/program"]
    assert found["bin"].isdir()
    assert (found["bin"].mode, found["bin/program"].mode) == (0o755, 0o555)
    for member in found.values():
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
    "other",
    [
        [File("/program", b"#?", 0o555), *FILES[1:]],
        [File("/program", b"#!", 0o755), *FILES[1:]],
        [*FILES[:-1], Link("/etc/link", "shadow")],
        [*FILES, Folder("/empty")],
    ],
    ids=["content", "mode", "link", "folder"],
)
def test_another_input_gives_another_digest(tmp_path: Path, other: list[layer.Entry]) -> None:
    first = archives.write(tmp_path / "a.tar", FILES)
    assert archives.write(tmp_path / "b.tar", other).digest != first.digest


def test_the_files_that_two_builds_differ_in_are_named(tmp_path: Path) -> None:
    first = archives.write(tmp_path / "a.tar", FILES)
    other = [File("/program", b"#?", 0o555), *FILES[1:], File("/new", b"")]
    second = archives.write(tmp_path / "b.tar", other)
    found = reproduce.differences(read.read(first.file), read.read(second.file))
    assert found == ["amd64 /new", "amd64 /program"]


def test_a_changed_byte_of_any_blob_is_found(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES)
    content = built.file.read_bytes()
    with tarfile.open(built.file) as tar:
        blobs = [member for member in tar if member.name.startswith("blobs/")]
    assert len(blobs) == 3
    for member in blobs:
        at = member.offset_data + member.size // 2
        changed = tmp_path / "changed.tar"
        changed.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(ToolError, match="it was changed"):
            read.read(changed)


def test_an_archive_that_ends_early_is_refused(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", FILES)
    built.file.write_bytes(built.file.read_bytes()[:700])
    with pytest.raises(ToolError, match=r"a\.tar"):
        read.read(built.file)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([File("program", b"")], "not a plain absolute path"),
        ([File("/a/../b", b"")], "not a plain absolute path"),
        ([File("/a", b""), File("/a", b"")], "twice"),
        ([File("/a", b""), File("/a/b", b"")], "no folder"),
    ],
)
def test_paths_that_make_no_image_are_refused(
    tmp_path: Path, entries: list[layer.Entry], words: str
) -> None:
    with pytest.raises(ToolError, match=words):
        archives.write(tmp_path / "a.tar", entries)
    assert list(tmp_path.iterdir()) == []


def test_an_index_gives_each_machine_the_image_for_it(tmp_path: Path) -> None:
    built = [
        archives.write(tmp_path / f"{arch}.tar", [File("/program", arch.encode())], arch=arch)
        for arch in ("amd64", "arm64")
    ]
    joined = index.join(built, tmp_path / "both.tar")
    contents = read.read(joined.file)
    assert contents.descriptor["digest"] == joined.digest
    assert [each.digest for each in contents.manifests] == [each.digest for each in built]
    for manifest in contents.manifests:
        config = archives.inspect(joined.file, "--config", arch=manifest.arch)
        assert config["architecture"] == manifest.arch
        assert config["rootfs"] == manifest.config["rootfs"]
