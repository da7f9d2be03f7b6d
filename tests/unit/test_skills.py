import os
import shutil
import time
from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.matching import meant
from agent.plan import Step, bound, filled, split, with_arguments
from agent.store.skills import Called, Skill, Skills, asked, load, load_file, match, slashed
from tests.conform.recorded import corpora


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def yaml(path: Path, run: str = "true", more: str = "") -> Path:
    return written(path, f"{more}steps:\n  - {{id: a, run: '{run}'}}\n")


def folder(path: Path, name: str, body: str = "Do it.", description: str = "does it") -> Path:
    text = f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"
    return written(path / "SKILL.md", text)


def found(tmp_path: Path, *, trusted: bool = True) -> Skills:
    return load(tmp_path / "builtin", tmp_path / "home", tmp_path / "repo", trusted=trusted)


PLACES = [
    ("builtin", "builtin"),
    ("home/.config/tianshu/skills", "user"),
    ("home/.agents/skills", "user"),
    ("repo/.claude/skills", "project"),
    ("repo/.agents/skills", "project"),
    ("repo/.agent/skills", "project"),
]


@pytest.mark.parametrize("count", range(1, len(PLACES) + 1))
def test_of_several_places_the_later_one_wins(count: int, tmp_path: Path) -> None:
    for place, _ in PLACES[:count]:
        folder(tmp_path / place / "x", "x", body=place)
    skills = found(tmp_path)
    place, source = PLACES[count - 1]
    assert [(skill.name, skill.instructions, skill.source) for skill in skills.all] == [
        ("x", place, source)
    ]
    assert skills.faults == skills.notices == ()


def test_yaml_files_count_where_plans_are_kept_and_not_beside_the_folders(tmp_path: Path) -> None:
    for number, (place, _) in enumerate(PLACES):
        yaml(tmp_path / place / f"s{number}.yaml")
    assert [skill.name for skill in found(tmp_path).all] == ["s0", "s1", "s2", "s5"]


def test_a_skill_is_named_by_its_file_where_it_says_no_name(tmp_path: Path) -> None:
    yaml(tmp_path / "builtin/run_the_tests.yaml")
    yaml(tmp_path / "builtin/b.yml", more="name: fix_it\n")
    skills = found(tmp_path)
    assert [skill.name for skill in skills.all] == ["fix-it", "run-the-tests"]
    assert skills.find("run_the_tests") is skills.find("run-the-tests")
    with pytest.raises(UsageError, match="no skill 'fix-i'; did you mean 'fix-it'"):
        skills.find("fix-i")


def test_an_untrusted_directory_s_skills_replace_no_other_and_are_marked(tmp_path: Path) -> None:
    yaml(tmp_path / "builtin/x.yaml", run="ours")
    yaml(tmp_path / "repo/.agent/skills/x.yaml", run="theirs")
    yaml(tmp_path / "repo/.agent/skills/y.yaml", run="theirs", more="match: [say hello]\n")
    folder(tmp_path / "repo/.claude/skills/z", "z", body="first")
    folder(tmp_path / "repo/.agents/skills/z", "z", body="second")

    skills = found(tmp_path, trusted=False)

    assert {skill.name: (skill.source, skill.trusted) for skill in skills.all} == {
        "x": ("builtin", True),
        "y": ("project", False),
        "z": ("project", False),
    }
    assert skills.find("x").plan.steps[0].run == "ours"
    assert skills.find("z").instructions == "first"
    assert [notice.partition(": ")[0] for notice in skills.notices] == [
        str(tmp_path / "repo/.agents/skills/z/SKILL.md"),
        str(tmp_path / "repo/.agent/skills/x.yaml"),
    ]
    assert match("say hello", skills.all) is None
    assert match("y", skills.all) is None
    asked_for = match("/y now", skills.all)
    assert asked_for == Called(skills.find("y"), "now"), "by its name the user asks for it himself"

    assert match("say hello", found(tmp_path).all) is not None
    assert found(tmp_path).find("x").plan.steps[0].run == "theirs"


def test_at_home_the_user_s_own_skills_are_no_project_s(tmp_path: Path) -> None:
    folder(tmp_path / ".agents/skills/x", "x")
    skills = load(tmp_path / "builtin", tmp_path, tmp_path, trusted=False)
    assert [(skill.source, skill.trusted) for skill in skills.all] == [("user", True)]
    assert skills.notices == ()


def test_a_bad_file_is_named_with_its_line_and_the_others_load(tmp_path: Path) -> None:
    home = tmp_path / "builtin"
    yaml(home / "good.yaml")
    written(home / "bad.yaml", "steps:\n  - id: a\n    run: x\n    neds: [b]\n    needs: [c]\n")
    written(home / "worse.yaml", "steps: [\n")
    written(home / "Odd Name.yaml", "steps: [look]\n")
    (home / "empty").mkdir()
    (home / "pipe").mkdir()
    os.mkfifo(home / "pipe" / "SKILL.md")

    skills = found(tmp_path)

    assert [skill.name for skill in skills.all] == ["good"]
    told = [fault.removeprefix(f"{home}/").partition(": ")[::2] for fault in skills.faults]
    assert [(where, why[:30]) for where, why in told] == [
        ("Odd Name.yaml:1", "the name 'Odd Name' is not mad"),
        ("bad.yaml:4", "`neds` is not known here; did "),
        ("bad.yaml:5", "step 'a' needs 'c', which is n"),
        ("pipe/SKILL.md", "this is no regular file"),
        ("worse.yaml:2", "did not find expected node con"),
    ]


HOSTILE = {
    "tag": "---\nname: !!python/object/apply:os.system [touch x]\ndescription: d\n---\nb\n",
    "bomb": "---\na: &a [x, x]\nb: &b [*a, *a]\nname: n\ndescription: *b\n---\nb\n",
    "deep": f"---\nname: n\ndescription: {'[' * 5000}\n---\nb\n",
    "twice": "---\nname: n\nname: m\ndescription: d\n---\nb\n",
    "large": "---\nname: n\ndescription: d\n---\n" + "words\n" * 400_000,
    "path": "---\nname: ../../x\ndescription: d\n---\nb\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_r8_a_hostile_skill_is_refused_at_once_and_grants_nothing(
    kind: str, tmp_path: Path
) -> None:
    written(tmp_path / "repo/.agent/skills" / kind / "SKILL.md", HOSTILE[kind])
    yaml(
        tmp_path / "repo/.agent/skills/grants.yaml",
        more="permission_mode: auto\nsandbox: 'off'\n",
    )
    begin = time.process_time()
    skills = load(tmp_path / "builtin", tmp_path / "home", tmp_path / "repo", trusted=True)
    assert time.process_time() - begin < 3, "a bound of 1 s on a machine that is not shared"
    assert skills.all == ()
    assert len(skills.faults) >= 2
    assert any("permission_mode" in fault for fault in skills.faults)
    assert not (tmp_path / "x").exists()


def test_two_files_of_one_place_with_one_name_are_told(tmp_path: Path) -> None:
    yaml(tmp_path / "builtin/a.yaml", run="first", more="name: x\n")
    yaml(tmp_path / "builtin/b.yaml", run="second", more="name: x\n")
    skills = found(tmp_path)
    assert [skill.plan.steps[0].run for skill in skills.all] == ["first"]
    assert "b.yaml: the name 'x' is taken by" in skills.notices[0]


def test_c082_marks_line_ends_and_blanks_around_front_matter_do_no_harm(tmp_path: Path) -> None:
    home = tmp_path / "builtin"
    text = "\ufeff--- \r\nname: fmt\r\ndescription: Format code\r\n---\t\r\nBody\r\n"
    written(home / "fmt/SKILL.md", text)
    written(home / "nobody/SKILL.md", "---\nname: nobody\ndescription: no body follows\n---")
    written(home / "plain/SKILL.md", "no front matter\n")

    skills = found(tmp_path)

    assert {skill.name: skill.instructions for skill in skills.all} == {"fmt": "Body", "nobody": ""}
    assert skills.find("fmt").plan.description == "Format code"
    assert len(skills.faults) == 1
    assert skills.faults[0].startswith(f"{home}/plain/SKILL.md:1: this has no front matter")


@pytest.mark.parametrize(
    ("front", "told"),
    [
        ("---\nname: x\ndescription: y\n", "1: the front matter has no end"),
        ("---\nname: x\n---\n", "2: the front matter has no `description`"),
        ("---\nname: x\ndescription: ''\n---\n", "2: the front matter has no `description`"),
        ("---\ndescription: y\nname: Two Words\n---\n", "3: the name 'Two Words' is not made of"),
        ("---\n---\nbody", "2: the front matter has no `name` and `description`"),
        ("---\nname: x\nname: y\ndescription: z\n---\n", "3: the key `name` stands here a second"),
        ("---\nname: x\ndescription: [open\n---\n", "4: did not find expected"),
        ("---\nname: !!python/name:os.system\ndescription: z\n---\n", "2: tags"),
        ("", "1: this has no front matter"),
        ("text\n---\nname: x\n---\n", "1: this has no front matter"),
    ],
)
def test_a_skill_md_that_can_t_be_used_says_why(front: str, told: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x/SKILL.md", front)
    with pytest.raises(UsageError) as caught:
        load_file(path)
    assert str(caught.value).startswith(f"{path}:{told}")


def test_a_description_may_hold_a_colon_and_several_lines(tmp_path: Path) -> None:
    one = written(
        tmp_path / "one/SKILL.md",
        '---\nname: one\ndescription: Use when: the user says "go" # now\nother: a: b\n---\n',
    )
    many = written(
        tmp_path / "many/SKILL.md", "---\ndescription: |\n  First line.\n\n  Second line.\n---\n"
    )
    assert load_file(one).plan.description == 'Use when: the user says "go" # now'
    assert load_file(many).plan.description == "First line. Second line."
    assert load_file(many).name == "many", "the folder names what has no name"


def test_a_skill_md_is_one_step_that_knows_where_its_files_are(tmp_path: Path) -> None:
    skill = load_file(folder(tmp_path / "s", "s", body="Read ref.md.\n\n---\n\nCosts $1."))
    assert skill.instructions == "Read ref.md.\n\n---\n\nCosts $1."
    (step,) = asked(skill, "a b").steps
    assert step.do
    said = filled(step.do, step.given)
    assert str(tmp_path / "s") in said
    assert "Costs $1." in said, "only $ARGUMENTS stands for something"
    assert said.endswith("<arguments>\na b\n</arguments>")


@pytest.mark.parametrize("form", ["$ARGUMENTS", "${ARGUMENTS}"])
def test_where_a_skill_md_says_arguments_they_stand_there(form: str, tmp_path: Path) -> None:
    skill = load_file(folder(tmp_path / "s", "s", body=f"Look at {form}, {form}."))
    (step,) = asked(skill, "  it's $100 ").steps
    assert step.do
    assert filled(step.do, step.given).endswith("\n\nLook at it's $100, it's $100.")


def test_a_skill_may_be_kept_from_the_model(tmp_path: Path) -> None:
    text = "---\nname: x\ndescription: y\ndisable-model-invocation: true\n---\n"
    assert not load_file(written(tmp_path / "x/SKILL.md", text)).offered
    assert load_file(folder(tmp_path / "y", "y")).offered


LINE = 'it\'s "two words" costs $100 and $ARGUMENTS & `x`'


def test_c083_arguments_stay_as_they_were_typed_and_are_filled_in_once(tmp_path: Path) -> None:
    text = (
        "name: note\nsteps:\n  - {id: a, do: 'All: [$ARGUMENTS] first: [$1] again: [$ARGUMENTS]'}\n"
    )
    skill = load_file(written(tmp_path / "note.yaml", text))
    hit = match(f"/note {LINE}", [skill])
    assert hit == Called(skill, LINE)
    (step,) = asked(skill, LINE).steps
    assert step.do
    assert filled(step.do, step.given) == f"All: [{LINE}] first: [it's] again: [{LINE}]"
    assert asked(skill, LINE) == with_arguments(skill.plan, split(LINE), LINE)
    assert bound(skill.plan, split(LINE), LINE)["2"] == "two words"


def test_c083_a_command_s_text_never_holds_its_arguments(tmp_path: Path) -> None:
    text = "arguments: [path]\nsteps:\n  - {id: a, run: 'ls $path'}\n"
    skill = load_file(written(tmp_path / "ls.yaml", text))
    (step,) = asked(skill, "`x`; rm -rf /").steps
    assert step.run == "ls $path"
    assert step.given["path"] == "`x`;"


@pytest.fixture
def skills(tmp_path: Path) -> list[Skill]:
    phrases = "match: [Fix the failing tests, make it green]\n"
    paths = [
        yaml(tmp_path / "fix-tests.yaml", more=f"description: Mend what fails.\n{phrases}"),
        yaml(tmp_path / "review.yaml", more="description: Look over the changes\n"),
        yaml(tmp_path / "other.yaml", more="description: Look over the changes\n"),
        yaml(tmp_path / "a.yaml", more="match: [twice said]\n"),
        yaml(tmp_path / "b.yaml", more="match: [twice said, review]\n"),
    ]
    return [load_file(path) for path in paths]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("fix the failing tests", "fix-tests"),
        ("  Fix the FAILING tests!  ", "fix-tests"),
        ("Please, fix the failing tests.", "fix-tests"),
        ("fix the failing tests please", "fix-tests"),
        ("ｆｉｘ the failing\ntests", "fix-tests"),
        ("fix tests", "fix-tests"),
        ("fix_tests", "fix-tests"),
        ("make it green", "fix-tests"),
        ("mend what fails", "fix-tests"),
        ("review", "b"),  # a phrase of b; a name of one word needs its slash
        ("/review", "review"),
        ("/fix_tests src", "fix-tests"),
        ("fix the failing tests?", None),
        ("don't fix the failing tests", None),
        ("fix the failing tests in src", None),
        ("fix", None),
        ("look over the changes", None),
        ("twice said", None),
        ("/unknown", None),
        ("/usr/bin/env", None),
        ("please", None),
        ("...", None),
        ("", None),
        ("fix the failing tests " * 20_000, None),
    ],
)
def test_a_message_starts_a_skill_only_where_there_is_no_doubt(
    text: str, name: str | None, skills: list[Skill]
) -> None:
    hit = match(text, skills)
    assert (hit.skill.name if hit else None) == name


def test_what_follows_a_slash_command_is_its_arguments_as_typed(skills: list[Skill]) -> None:
    hit = match("/review  src/a b \n 'c'", skills)
    assert hit
    assert hit.words == "src/a b \n 'c'"


def test_the_words_of_a_command_may_begin_on_the_next_line() -> None:
    assert slashed("/compact\nkeep the names\n") == ("compact", "keep the names")
    assert slashed("// no command") is slashed("/usr/bin/env is there") is None


def test_signs_that_carry_meaning_are_no_punctuation() -> None:
    assert meant("review C# code") != meant("review C code")
    assert meant("a/b") != meant("ab")


HERE = corpora()


@pytest.mark.skipif(HERE is None, reason="needs the corpora: set TS_CORPORA to their folder")
def test_skills_of_others_load_or_say_why_corpora() -> None:
    assert HERE
    loaded, refused = list[Skill](), dict[str, str]()
    for path in sorted(HERE.rglob("SKILL.md")):
        try:
            loaded.append(load_file(path))
        except UsageError as error:
            refused[path.parent.name] = str(error).removeprefix(f"{path}:")
    assert set(refused) <= {
        "invalid-name-chars",
        "invalid-yaml",
        "missing-description",
        "no-frontmatter",
    }
    assert all(why[0].isdigit() for why in refused.values())
    assert len(loaded) > 60
    for skill in loaded:
        (step,) = asked(skill, "words").steps
        assert step.do
        assert skill.instructions in step.do or "$ARGUMENTS" in skill.instructions
        assert isinstance(step, Step)


@pytest.mark.skipif(HERE is None, reason="needs the corpora: set TS_CORPORA to their folder")
def test_of_two_places_with_one_name_the_later_wins_corpora(tmp_path: Path) -> None:
    assert HERE
    both = HERE / "pi-sessions-and-skills/skills-collision"
    shutil.copytree(both / "first", tmp_path / "builtin")
    shutil.copytree(both / "second", tmp_path / "home/.agents/skills")
    (skill,) = found(tmp_path).all
    assert (skill.name, skill.source) == ("calendar", "user")
    assert "second" in skill.instructions
