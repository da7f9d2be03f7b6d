"""`ts report` and `ts show --svg`: files that stand alone, whatever a run has said."""

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from time import monotonic
from xml.etree import ElementTree as Xml

import pytest

from tests.browser import PROGRAM, browser
from tests.e2e.ts import Ts, call, calling

NO_BROWSER = pytest.mark.skipif(not PROGRAM, reason="there is no Chromium here")
EVIL = (
    "</script><script>document.title='taken'</script>"
    "<img src=http://127.0.0.1:9/x onerror=alert(1)>"
    "\"'><svg onload=alert(1)> </pre></details><a href='javascript:alert(1)'>here</a> "
    "<style>body{display:none}</style><iframe src=//127.0.0.1:9></iframe> \u202egpj.exe "
    "\x1b]0;title\x07\x00\x08 &amp; <!-- ]]> {{7*7}}"
)
PLAN = """\
goal: Mend it
steps:
  - {id: look, run: "echo seen", writes: []}
  - id: change
    needs: [look]
    run: "echo new > made.txt; test -e ready || { touch ready; exit 3; }"
    attempts: 2
    verify: "test -e made.txt"
  - {id: each, needs: [look], foreach: look.lines, run: 'echo "copy of $item"', writes: []}
  - {id: never, needs: [look], when: look.failed, run: "true", writes: []}
"""


class Reader(HTMLParser):
    """The tags of a page, the attributes that could do something, and whether all are closed."""

    VOID = frozenset({"meta", "br", "link", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags = dict[str, int]()
        self.acting = list[str]()
        self.open = list[str]()
        self.links = list[str]()
        self.ids = set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.acting += [key for key, _ in attrs if key.startswith("on") or key in {"src", "style"}]
        self.links += [value or "" for key, value in attrs if key == "href"]
        self.ids |= {value or "" for key, value in attrs if key == "id"}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def report(ts: Ts, *words: str) -> str:
    path = ts.cwd / "out.html"
    ran = ts.here("report", *words, "-o", str(path))
    assert ran.code == 0, ran
    return path.read_text(encoding="utf-8")


def sound(text: str) -> Reader:
    """A page that runs nothing, loads nothing and leads nowhere else."""
    read = Reader(text)
    assert not read.open
    assert not read.acting
    assert not {"script", "img", "iframe", "object", "form", "link", "base"} & read.tags.keys()
    assert read.tags["style"] == 1
    assert {link.removeprefix("#") for link in read.links} <= read.ids
    return read


def hostile(ts: Ts) -> str:
    """The page of a run in which everybody says what is meant to break it."""
    ts.model = ts.script(
        calling(call("list_files", directory=EVIL), call("read_file", path="evil.txt"), text=EVIL),
        calling(call("report", status="done", summary=EVIL)),
    )
    ts.write("evil.txt", EVIL.replace("\x00", "") + "\n")
    step = {"id": "one", "do": f"Look. {EVIL}", "writes": [], "needs": []}
    tell = {"id": "two", "run": "cat evil.txt", "writes": []}
    ts.write("plan.yaml", json.dumps({"goal": EVIL, "steps": [step, tell]}))
    assert ts.here("run", "plan.yaml", "-y", "--sandbox", "off").code == 0
    return report(ts)


def many(ts: Ts, count: int) -> None:
    steps = [
        {"id": f"step-{n}", "run": f"echo {n}", "writes": [], "needs": [f"step-{n // 3}"][: n > 0]}
        for n in range(count)
    ]
    ts.write("plan.yaml", json.dumps({"goal": "many", "steps": steps}))
    assert ts.here("run", "plan.yaml", "-y", "--sandbox", "off", "--max-workers", "8").code == 0


def test_a_report_tells_steps_attempts_checks_changes_and_the_plan_and_replaces_only_its_own(
    ts: Ts,
) -> None:
    ts.write("plan.yaml", PLAN)
    assert ts.here("run", "plan.yaml", "-y", "--sandbox", "off").code == 0
    id = ts.log()[0]["run"]
    ran = ts.here("report")
    path = ts.cwd / f"report-{id}.html"
    assert (ran.code, ran.raw) == (0, b"")
    assert path.name in ran.err
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text(encoding="utf-8")
    sound(text)
    for words in ("Attempt 1", "Attempt 2", ">check<", "copy of seen", "each.1", "Revisions"):
        assert words in text
    assert '<span class="plus">+new\n</span>' in text
    assert ts.here("report", id[:20]).code == 0
    path.write_text("mine", encoding="utf-8")
    assert ts.here("report").code == 2
    assert path.read_text(encoding="utf-8") == "mine"
    path.unlink()
    path.symlink_to(ts.cwd / "elsewhere")
    assert ts.here("report").code == 2
    assert not (ts.cwd / "elsewhere").exists()


def test_the_graph_stands_alone_as_a_picture(ts: Ts) -> None:
    ts.write("plan.yaml", PLAN)
    assert ts.here("run", "plan.yaml", "-y", "--sandbox", "off").code == 0
    root = Xml.fromstring(ts.here("show", "--svg").said)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    names = [each.text for each in root.iter() if each.get("class") == "name"]
    assert sorted(filter(None, names)) == ["change", "each.1", "look", "never"]
    assert ts.here("runs", "--svg").code == 2


def test_nothing_that_a_model_a_tool_or_a_file_says_is_more_than_text(ts: Ts) -> None:
    text = hostile(ts)
    sound(text)
    assert "<!-- ]]" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    Xml.fromstring(ts.here("show", "--svg").said)


def test_secrets_stand_in_no_report(ts: Ts) -> None:
    ts.env["DEPLOY_TOKEN"] = "correct-horse-battery"
    secret = "ghp_" + "a1b2c3d4" * 5
    ts.model = ts.script(
        calling(call("list_files", directory="none", data=secret), text=f"it is {secret}"),
        calling(call("report", status="done", summary="password: hunter2222")),
    )
    ts.write("plan.yaml", json.dumps({"goal": secret, "steps": [{"id": "one", "do": "Look"}]}))
    ts.here("run", "plan.yaml", "-y", "--sandbox", "off")
    text = report(ts)
    assert not any(each in text for each in (secret, "hunter2222", "correct-horse-battery"))
    assert "[redacted]" in text


def test_a_long_output_is_cut_and_its_length_is_said(ts: Ts) -> None:
    step = {"id": "one", "run": "head -c 50000 /dev/zero | tr '\\0' x", "writes": []}
    ts.write("plan.yaml", json.dumps({"steps": [step]}))
    assert ts.here("run", "plan.yaml", "-y", "--sandbox", "off").code == 0
    assert re.search(r"… [\d,]+ characters left out …", report(ts))


def test_a_run_that_failed_was_cut_off_or_whose_log_is_damaged_is_told_as_far_as_it_goes(
    ts: Ts,
) -> None:
    ts.write("plan.yaml", PLAN.replace("test -e ready ||", "").replace("; exit 3", "; exit 4"))
    assert ts.here("run", "plan.yaml", "-y", "--sandbox", "off").code == 1
    sound(report(ts))
    path = max((ts.cwd / ".agent/runs").glob("*.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    for n in range(len(lines)):
        path.write_bytes(b"".join(lines[:n]) + lines[n][: len(lines[n]) // 2])
        ran = ts.here("report", "-o", "out.html")
        assert ran.code == (0 if n else ran.code), ran
        assert "a fault of ts itself" not in ran.err
    path.write_bytes(b"".join(lines[1:5] + lines[6:]))
    text = report(ts)
    sound(text)
    assert 'class="notice"' in text


@NO_BROWSER
def test_in_a_browser_if_there_is_chromium_hostile_text_does_nothing_and_no_request_leaves(
    ts: Ts, tmp_path: Path
) -> None:
    hostile(ts)
    with browser(tmp_path / "profile") as page:
        page.show(ts.cwd / "out.html")
        assert page.value("document.title").startswith("</script><script>")
        assert page.value("document.scripts.length + document.images.length") == 0
        assert page.value("getComputedStyle(document.body).display") == "block"
        assert page.requested == [(ts.cwd / "out.html").as_uri()]
        page.show(ts.cwd / "out.html", 390)
        assert page.value("document.documentElement.scrollWidth <= innerWidth")
        axe = os.environ.get("TS_TEST_AXE")  # noqa: TID251 - where axe.min.js is, if anywhere
        if axe:
            page.value("document.querySelectorAll('details').forEach(one => one.open = true)")
            page.value(Path(axe).read_text(encoding="utf-8") + "; 0")
            assert page.value("axe.run().then(all => all.violations.map(one => one.id))") == []


@NO_BROWSER
def test_in_a_browser_if_there_is_chromium_the_keyboard_reaches_a_step_and_opens_it(
    ts: Ts, tmp_path: Path
) -> None:
    ts.write("plan.yaml", PLAN)
    assert ts.here("run", "plan.yaml", "-y", "--sandbox", "off").code == 0
    report(ts)
    with browser(tmp_path / "profile") as page:
        page.show(ts.cwd / "out.html")
        page.key("Tab", 9)
        assert page.value("document.activeElement.className") == "skip"
        for _ in range(40):
            page.key("Tab", 9)
            if page.value("document.activeElement.parentElement.className") == "step":
                break
        page.key("Enter", 13)
        assert page.value("document.activeElement.parentElement.open")
        page.value("document.querySelector('.graph a').focus()")
        page.key("Enter", 13)
        assert page.value("document.querySelector(location.hash).parentElement.open")


@NO_BROWSER
@pytest.mark.campaign
def test_in_a_browser_if_there_is_chromium_three_hundred_steps_open_in_under_a_second(
    ts: Ts, tmp_path: Path
) -> None:
    many(ts, 300)
    report(ts)
    with browser(tmp_path / "profile") as page:
        took = list[float]()
        for _ in range(5):  # the first one waits for the browser itself as well
            page.show(ts.cwd / "out.html")
            took.append(page.value("performance.getEntriesByType('navigation')[0].loadEventEnd"))
        assert min(took) < 1000, took
        began = monotonic()
        page.value(
            "new Promise(done => { scrollTo(0, document.body.scrollHeight);"
            "requestAnimationFrame(() => requestAnimationFrame(done)) })"
        )
        assert monotonic() - began < 1
