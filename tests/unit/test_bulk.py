"""Texts that are kept beside a conversation: whole, private, once, within bounds."""

from pathlib import Path

from agent.store import bulk
from agent.store.bulk import Bulk


def test_a_text_is_kept_whole_for_the_user_alone_under_a_path_from_the_directory(
    tmp_path: Path,
) -> None:
    keep = Bulk(tmp_path, "sessions", "s1.kept")
    assert not (tmp_path / ".agent").exists(), "nothing is made before it is needed"
    text = "测试\r\nhalf \ud800\u2028end"
    path = keep(text)
    assert path.startswith(".agent/sessions/s1.kept/")
    place = tmp_path / path
    assert place.read_bytes().decode("utf-8", "surrogatepass") == text
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / ".agent/.gitignore").exists()


def test_the_same_text_has_the_same_path_each_time_and_is_kept_once(tmp_path: Path) -> None:
    one, two = Bulk(tmp_path, "sessions", "s1.kept"), Bulk(tmp_path, "sessions", "s1.kept")
    assert one("a") == one("a") == two("a") != one("b")
    assert len([*(tmp_path / ".agent/sessions/s1.kept").iterdir()]) == 2


def test_what_the_disk_refuses_or_is_too_much_is_not_kept_and_no_error(tmp_path: Path) -> None:
    keep = Bulk(tmp_path, "sessions", "s1.kept")
    assert keep("x" * (bulk.MOST_FILE + 1)) == ""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".agent/sessions/s2.kept").symlink_to(tmp_path / "elsewhere")
    assert Bulk(tmp_path, "sessions", "s2.kept")("x") == ""
    assert not [*(tmp_path / "elsewhere").iterdir()]
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    assert Bulk(file, "sessions", "s1.kept")("x") == ""


def test_all_texts_together_have_a_bound(tmp_path: Path) -> None:
    class Small(Bulk):
        most = 100

    keep = Small(tmp_path, "sessions", "s1.kept")
    assert [bool(keep(str(number) * 40)) for number in range(3)] == [True, True, False]
    again = Small(tmp_path, "sessions", "s1.kept")
    assert again("0" * 40), "what is there already takes no more"
    assert not again("9" * 40)
