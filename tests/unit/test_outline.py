import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.errors import StoppedError, ToolError
from agent.stop import Stop
from agent.tool import Context
from agent.tools.find import rank, symbols
from agent.tools.find.symbols import Source, Symbol
from agent.tools.outline import find_symbol, get_outline, project_outline
from agent.tools.search import BYTES

WILD = "class A { void f() { " + "a<" * 50_000 + " } }\n"  # takes all memory in Java's grammar


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    return root


@pytest.fixture
def context(root: Path) -> Context:
    return Context(cwd=root, stop=Stop())


def lay(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def outline(context: Context, path: str) -> list[str]:
    return get_outline(context, {"path": path}).text.split("\n")


def find(context: Context, name: str, directory: str = ".") -> list[str]:
    return find_symbol(context, {"name": name, "directory": directory}).text.split("\n")


def test_c025_what_is_no_source_has_no_outline(root: Path, context: Context) -> None:
    lay(
        root,
        {
            "w.txt": "hello needle\r\n".encode("utf-16"),
            "w.py": "def needle():\r\n    pass\r\n".encode("utf-16"),
            "blob.py": b"def a(): pass\0\n",
        },
    )
    assert outline(context, "w.txt") == [
        "w.txt: no outline for this kind of file; grep_files and read_file show what is in it"
    ]
    assert outline(context, "w.py") == ["w.py (python, 2 lines)", "1-2: def needle()"]
    assert outline(context, "blob.py") == ["blob.py: no outline, it is binary"]


def test_c034_a_tracked_file_that_is_gone_is_passed_over(root: Path, context: Context) -> None:
    lay(root, {"keep.py": "def a(): pass\n", "gone.py": "def b(): pass\n"})
    who = ["-c", "user.name=A", "-c", "user.email=a@localhost"]
    for argv in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", *who, *argv], cwd=root, check=True)
    (root / "gone.py").unlink()
    assert outline(context, ".") == ["keep.py", "  1: def a()"]
    assert find(context, "b") == ["no definition of b in ."]
    assert find(context, "a") == ["keep.py:1: function a, def a()"]
    assert project_outline(context, 1000) == "keep.py\n  def a()"


def test_c037_functions_bound_to_names_are_functions(root: Path, context: Context) -> None:
    lay(
        root,
        {
            "w.ts": "export const add = (a: number, b: number) => a + b;\n"
            "export default class W {\n"
            "  private fld = () => 1;\n"
            "  async run<T>(x: T): Promise<T> { return x; }\n"
            "}\n"
            "export interface Opts { name: string }\n"
            "export type Id = string | number;\n"
            "const plain = 3;\n"
        },
    )
    assert outline(context, "w.ts") == [
        "w.ts (typescript, 8 lines)",
        "1: const add = (a: number, b: number)",
        "2-5: class W",
        "3:   private fld = ()",
        "4:   async run<T>(x: T): Promise<T>",
        "6: interface Opts",
        "7: type Id = string | number",
    ]
    assert find(context, "W.fld") == ["w.ts:3: method W.fld, private fld = ()"]
    assert find(context, "plain") == ["w.ts:8: variable plain, const plain = 3"]


def test_c038_definitions_of_one_name_are_all_told_apart(root: Path, context: Context) -> None:
    lay(
        root,
        {
            "Q.java": "class Q {\n"
            "  int get(int a) { return a; }\n"
            "  int get(String s) { return 0; }\n"
            "  static class In { int get() { return 1; } }\n"
            "}\n",
            "q.go": "package q\n\ntype A struct{}\ntype B struct{}\n\n"
            "func (a *A) Get() int { return 1 }\n"
            "func (b B) Get() int  { return 2 }\n"
            "func Get() int        { return 3 }\n",
        },
    )
    assert find(context, "get") == [
        "Q.java:2: method Q.get, int get(int a)",
        "Q.java:3: method Q.get, int get(String s)",
        "Q.java:4: method Q.In.get, int get()",
    ]
    assert find(context, "Get") == [
        "q.go:6: method A.Get, func (a *A) Get() int",
        "q.go:7: method B.Get, func (b B) Get() int",
        "q.go:8: function Get, func Get() int",
    ]
    assert find(context, "In.get") == ["Q.java:4: method Q.In.get, int get()"]
    assert find(context, "B.Get") == ["q.go:7: method B.Get, func (b B) Get() int"]
    assert find(context, "q.Get()") == ["q.go:8: function Get, func Get() int"]
    assert outline(context, "q.go") == [
        "q.go (go, 8 lines)",
        "3: type A struct",
        "4: type B struct",
        "6: func (a *A) Get() int",
        "7: func (b B) Get() int",
        "8: func Get() int",
    ]


def test_c040_what_makes_a_parser_recurse_ends_nothing(root: Path, context: Context) -> None:
    lay(
        root,
        {
            "deep.py": "1 + " * 60_000 + "1\n",
            "nest.tsx": "<a>" * 20_000,
            "parens.js": "x = " + "(" * 100_000 + "1" + ")" * 100_000 + "\n",
            "wild.java": WILD,
            "ok.py": "def ok():\n    pass\n",
        },
    )
    start = time.monotonic()
    for name in ("deep.py", "nest.tsx", "parens.js"):
        assert outline(context, name)[0].startswith(f"{name} (")
    assert outline(context, "wild.java") == ["wild.java: no outline, the parser gave up on it"]
    assert find(context, "ok") == ["ok.py:1-2: function ok, def ok()"]
    assert time.monotonic() - start < 20


def test_a_file_that_ends_the_parser_is_named_and_the_others_are_read(
    root: Path, context: Context
) -> None:
    lay(root, {"a.py": "class A: x = 1\n", "b.java": WILD, "c.py": "def f(a): return A\n"})
    assert outline(context, ".") == [
        "a.py",
        "  1: class A",
        "c.py",
        "  1: def f(a)",
        "(not read: b.java: the parser gave up on it)",
    ]
    assert find(context, "A") == [
        "a.py:1: class A, class A",
        "(not read: b.java: the parser gave up on it)",
    ]


def test_reading_ends_when_the_work_is_stopped(root: Path) -> None:
    lay(root, {"b.java": WILD})
    stop = Stop()
    threading.Timer(0.3, stop.set).start()
    start = time.monotonic()
    with pytest.raises(StoppedError):
        get_outline(Context(cwd=root, stop=stop), {"path": "b.java"})
    assert time.monotonic() - start < 2
    with pytest.raises(StoppedError):
        project_outline(Context(cwd=root, stop=stop), 1000)


def test_files_for_which_there_was_no_time_are_told_of(root: Path) -> None:
    lay(root, {"a.py": "x = 1\n"})
    assert symbols.sources(Stop(), [root / "a.py"] * 3, seconds=0) == [Source(note="late")] * 3


def test_what_is_no_file_is_gone(root: Path) -> None:
    lay(root, {"a.py": "def a(): pass\n"})
    folder = root / "folder.py"
    folder.mkdir()
    found = symbols.sources(Stop(), [root / "a.py", folder, root / "none.py", root / "a.txt"])
    assert [each.note for each in found] == ["", "gone", "gone", "gone"]
    assert [each.name for each in found[0].definitions] == ["a"]


SAMPLES = {
    "a.py": (
        "@dec(1)\n"
        "class A(B, metaclass=M):\n"
        "    size: int = 1\n"
        "    LIMIT = 2\n"
        "    @property\n"
        "    async def go(self, a: int,\n"
        '           b: str = "x") -> dict[str, int]:  # why\n'
        "        def inner(): return 1\n"
        "        local = 2\n"
        "def gen[T](x: T) -> T: pass\n"
        "Name: TypeAlias = int\n",
        [
            "2-9: class A(B, metaclass=M)",
            "4:   LIMIT = 2",
            '6-9:   async def go(self, a: int, b: str = "x") -> dict[str, int]',
            "8:     def inner()",
            "10: def gen[T](x: T) -> T",
            "11: Name: TypeAlias = int",
        ],
    ),
    "a.js": (
        "export async function* walk(x) {}\n"
        "class A extends B { static #p() {} f = () => { const g = function () {} } get v() {} }\n"
        "const Api = { get: async (x) => 1, post() {} };\n"
        "exports.run = function (a) {};\n"
        "Foo.prototype.bar = () => 1;\n",
        [
            "1: async function* walk(x)",
            "2: class A extends B",
            "2:   static #p()",
            "2:   f = ()",
            "2:     const g = function ()",
            "2:   get v()",
            "3: const Api",
            "3:   get: async (x)",
            "3:   post()",
            "4: exports.run = function (a)",
            "5: Foo.prototype.bar = ()",
        ],
    ),
    "a.tsx": (
        '@Component({selector: "x(y)"})\n'
        'export abstract class D<T> { @Hear("a") onA() {} abstract z(): void }\n'
        "namespace N { export function f(a: T) {} }\n"
        "declare function g(a: string): void;\n"
        "enum E { A }\n"
        "const View = () => <a href='x'>{1}</a>;\n",
        [
            "2: abstract class D<T>",
            "2:   onA()",
            "2:   abstract z(): void",
            "3: namespace N",
            "3:   function f(a: T)",
            "4: function g(a: string): void",
            "5: enum E",
            "6: const View = ()",
        ],
    ),
    "a.go": (
        "package q\n"
        "type S[T any] struct{ v T }\n"
        "type I interface { Do(x int) error }\n"
        "type F func(int) int\n"
        "const Max = 3\n"
        "var One, two = 1, 2\n"
        "func (s *S[T]) Put(v T) {\n}\n",
        [
            "2: type S[T any] struct",
            "3: type I interface",
            "3:   Do(x int) error",
            "4: type F func(int) int",
            "5: Max = 3",
            "6: One, two = 1, 2",
            "7-8: func (s *S[T]) Put(v T)",
        ],
    ),
    "a.rs": (
        "#[derive(Debug)]\n"
        "pub struct Foo<T> { x: T }\n"
        "impl<T: Clone> Foo<T> { pub fn new(x: T) -> Self { Foo { x } } }\n"
        "pub trait Tr { fn need(&self) -> u8; }\n"
        "mod m { pub async fn inner() {} }\n"
        "macro_rules! mac { () => {} }\n",
        [
            "2: pub struct Foo<T>",
            "3: impl<T: Clone> Foo<T>",
            "3:   pub fn new(x: T) -> Self",
            "4: pub trait Tr",
            "4:   fn need(&self) -> u8",
            "5: mod m",
            "5:   pub async fn inner()",
            "6: macro_rules! mac",
        ],
    ),
    "a.java": (
        '@Entity(name="x")\n'
        "public class Q<T> extends Base {\n"
        "  static final int MAX = 3;\n"
        "  @Override\n"
        "  public int get(int a) { return a; }\n"
        "  Q() {}\n"
        "}\n"
        "record R(int a) {}\n",
        [
            "2-7: public class Q<T> extends Base",
            "3:   static final int MAX = 3",
            "5:   public int get(int a)",
            "6:   Q()",
            "8: record R(int a)",
        ],
    ),
    "a.c": (
        "#define MAX 3\n"
        "#define SQ(x) ((x)*(x))\n"
        "struct P { int x; };\n"
        "typedef int (*cb_t)(int);\n"
        "static inline int **ptr(void)\n{\n  int local(3);\n  return 0;\n}\n"
        "int proto(int a,\n          int b);\n",
        [
            "1: #define MAX 3",
            "2: #define SQ(x) ((x)*(x))",
            "3: struct P",
            "4: typedef int (*cb_t)(int)",
            "5-9: static inline int **ptr(void)",
            "10-11: int proto(int a, int b)",
        ],
    ),
    "a.h": (
        "namespace ns {\n"
        "template <typename T> class Box : public Base { Box(); ~Box(); T get() const { }\n"
        "int operator+(int o); };\n"
        "}\n"
        "int &ns::Box::ref(int a) { return v; }\n",
        [
            "1-4: namespace ns",
            "2-3:   class Box : public Base",
            "2:     Box()",
            "2:     ~Box()",
            "2:     T get() const",
            "3:     int operator+(int o)",
            "5: int &ns::Box::ref(int a)",
        ],
    ),
    "a.cs": (
        "namespace X {\n"
        "  [Serializable] public class A : B {\n"
        "    public int P { get; set; }\n"
        '    [HttpGet("x")] public async Task<int> M(int a) { int L(int z) { return z; } }\n'
        "    int Ex() => 3;\n"
        "  }\n"
        "}\n",
        [
            "1-7: namespace X",
            "2-6:   public class A : B",
            "3:     public int P",
            "4:     public async Task<int> M(int a)",
            "4:       int L(int z)",
            "5:     int Ex()",
        ],
    ),
    "a.rb": (
        "module M\n"
        "  class A < B\n"
        "    LIMIT = 3\n"
        "    def go(x, y = 1)\n      x\n    end\n"
        "    def self.make; end\n"
        "  end\n"
        "end\n",
        [
            "1-9: module M",
            "2-8:   class A < B",
            "3:     LIMIT = 3",
            "4-6:     def go(x, y = 1)",
            "7:     def self.make",
        ],
    ),
    "a.php": (
        "<html><?php\n"
        "function f($a) { return 1; }\n"
        "abstract class A extends B {\n"
        "  const C = 2;\n"
        "  public function m(int $x): int { return 1; }\n"
        "}\n"
        "trait T {} enum E { case A; }\n",
        [
            "2: function f($a)",
            "3-6: abstract class A extends B",
            "4:   const C = 2",
            "5:   public function m(int $x): int",
            "7: trait T",
            "7: enum E",
        ],
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_each_language_shows_what_it_defines(root: Path, context: Context, name: str) -> None:
    text, shown = SAMPLES[name]
    lay(root, {name: text})
    assert outline(context, name)[1:] == shown


def test_a_file_with_errors_shows_what_it_has(root: Path, context: Context) -> None:
    lay(
        root,
        {
            "a.py": "def one(): pass\nclass <<<<<\ndef two(x): pass\n"
            "class C:\n    def m(self): (\n\n    def n(self): pass\n",
            "b.go": "package b\nfunc A() {\n}}}}\nfunc B() {}\n",
        },
    )
    assert outline(context, "a.py")[1:] == [
        "1: def one()",
        "3: def two(x)",
        "4-7: class C",
        "5-7:   def m(self): (def n(self)",
        "7:     def n(self): pass",
    ]
    assert outline(context, "b.go")[1:] == ["2-3: func A()", "4: func B()"]


def test_a_script_without_an_ending_is_known_by_its_first_line(
    root: Path, context: Context
) -> None:
    lay(root, {"tool": "#!/usr/bin/env python3\ndef f(): pass\n", "other": "def f(): pass\n"})
    assert outline(context, "tool") == ["tool (python, 2 lines)", "2: def f()"]
    assert "no outline" in outline(context, "other")[0]


def test_a_file_too_long_is_told_of(root: Path, context: Context) -> None:
    lay(root, {"a.py": "x = 1\n" * 200_000})
    assert outline(context, "a.py") == ["a.py: no outline, it is longer than 1000 kB"]
    assert outline(context, ".") == ["(not read: a.py: it is longer than 1000 kB)"]


def test_an_outline_that_is_long_loses_its_depths_first(root: Path, context: Context) -> None:
    body = "".join(f"    def method_{n}(self):\n        def inside(): pass\n" for n in range(40))
    lay(root, {f"d/m{n}.py": f"class C{n}:\n{body}" for n in range(30)})
    lines = outline(context, "d")
    assert len("\n".join(lines).encode()) <= BYTES
    assert lines[:4] == ["d/m0.py", "  1-81: class C0", "d/m1.py", "  1-81: class C1"]
    assert lines[-1].startswith("(shortened: ")
    assert outline(context, "d/m0.py")[3] == "3:     def inside()"
    lay(root, {"long.py": "".join(f"class C{n}:\n{body}" for n in range(30))})
    lines = outline(context, "long.py")
    assert lines[1:3] == ["1-81: class C0", "82-162: class C1"]
    assert lines[-1] == "(2400 smaller ones not shown)"


def test_a_directory_without_sources_is_told(root: Path, context: Context) -> None:
    lay(root, {"docs/a.md": "# A\n"})
    assert outline(context, "docs") == [
        "docs: no outline for this kind of files there; list_files shows them"
    ]


def test_what_is_outside_or_absent_is_refused(root: Path, context: Context) -> None:
    lay(root, {"sources.py": "x = 1\n"})
    lay(root.parent, {"other.py": "x = 1\n"})
    with pytest.raises(ToolError, match="outside"):
        get_outline(context, {"path": "../other.py"})
    with pytest.raises(ToolError, match="outside"):
        find_symbol(context, {"name": "x", "directory": ".."})
    with pytest.raises(ToolError, match=r"sources\.py"):
        get_outline(context, {"path": "source.py"})
    for name in ("", "..", "a\nb", "a\0"):
        with pytest.raises(ToolError, match="name of a symbol"):
            find_symbol(context, {"name": name})


def test_other_letters_are_tried_when_the_very_ones_are_nowhere(
    root: Path, context: Context
) -> None:
    lay(root, {"a.py": "class Client:\n    def Send(self): pass\n", "b.py": "def send(): client\n"})
    assert find(context, "client") == [
        "a.py:1-2: class Client, class Client",
        "(none in just these letters; these differ in case)",
    ]
    assert find(context, "send") == ["b.py:1: function send, def send()"]
    assert find(context, "client.send")[0] == "a.py:2: method Client.Send, def Send(self)"
    assert find(context, "Client::Send") == ["a.py:2: method Client.Send, def Send(self)"]
    assert find(context, "b.send") == ["b.py:1: function send, def send()"]


def test_a_name_that_is_only_used_has_no_definition(root: Path, context: Context) -> None:
    lay(root, {"a.py": "print(missing)\n", "b.txt": "def missing(): pass\n"})
    assert find(context, "missing") == [
        "no definition of missing in .",
        "(the word stands in 1 file; grep_files shows where)",
    ]
    assert find(context, "nowhere") == ["no definition of nowhere in ."]


def test_a_common_name_is_found_among_many_files(root: Path, context: Context) -> None:
    lay(root, {f"m{n:03}.py": f"x = thing.get({n})\nprint(get)\n" for n in range(150)})
    lay(root, {"z.java": "class Z {\n  java.util.List<Q> get(int a) { return null; }\n}\n"})
    start = time.monotonic()
    assert find(context, "get") == ["z.java:2: method Z.get, java.util.List<Q> get(int a)"]
    assert find(context, "Z.get") == ["z.java:2: method Z.get, java.util.List<Q> get(int a)"]
    assert time.monotonic() - start < 8


def test_a_symbol_is_looked_for_below_a_directory_or_in_a_file(
    root: Path, context: Context
) -> None:
    lay(root, {"a/x.py": "def f(): pass\n", "b/x.py": "def f(): pass\n"})
    assert find(context, "f", "b") == ["b/x.py:1: function f, def f()"]
    assert find(context, "f", "a/x.py") == ["a/x.py:1: function f, def f()"]


PROJECT = {
    "aaa.py": "from zzz import Engine\n\ndef helper():\n    return Engine()\n",
    "bbb.py": "from zzz import Engine, start\n\nclass Car:\n    e = Engine()\n    s = start()\n",
    "ccc.py": "import bbb\n\ndef main():\n    # Engine, Engine: words of a comment don't count\n"
    "    return bbb.Car()\n",
    "zzz.py": "class Engine:\n    def run(self):\n        pass\n\ndef start():\n    pass\n\n"
    "def unused():\n    pass\n",
    "tests/test_aaa.py": "from aaa import helper\n\ndef test_it():\n    assert helper()\n",
}


def test_the_project_s_outline_begins_with_what_the_rest_leans_on(
    root: Path, context: Context
) -> None:
    lay(root, PROJECT)
    assert project_outline(context, 4000).split("\n") == [
        "zzz.py",
        "  class Engine",
        "    def run(self)",
        "  def start()",
        "  def unused()",
        "aaa.py",
        "  def helper()",
        "bbb.py",
        "  class Car",
        "ccc.py",
        "  def main()",
        "tests/test_aaa.py",
        "  def test_it()",
    ]
    assert project_outline(context, 50) == "zzz.py\n  class Engine\nand 4 more files"
    assert project_outline(context, 5) == ""


def test_the_project_s_outline_has_the_same_bytes_each_time(root: Path) -> None:
    lay(root, PROJECT)
    outlines = {
        project_outline(Context(cwd=root, stop=Stop(), env=env), 120)
        for env in ({}, {"PATH": ""}, {}, {"PATH": ""})
    }
    assert len(outlines) == 1
    assert 0 < len(outlines.pop()) <= 120


def test_a_directory_without_code_has_no_outline(root: Path, context: Context) -> None:
    lay(root, {"README.md": "# Hello\n"})
    assert project_outline(context, 4000) == ""


def test_the_outline_of_a_large_project_takes_some_of_its_files(
    root: Path, context: Context
) -> None:
    many = "".join(f"def function_{n}(a, b):\n    return a\n" for n in range(20))
    lay(root, {f"p{n % 10}/m{n}.py": many for n in range(600)})
    lay(root, {"base.py": "class Base: pass\n", "top.py": "from base import Base\nBase()\n"})
    start = time.monotonic()
    text = project_outline(context, 500)
    assert text.startswith("base.py\n  class Base\n")
    assert len(text) <= 500
    assert time.monotonic() - start < 10


def symbol(name: str, **changes: object) -> Symbol:
    given = {"kind": "class", "owner": "", "name": name, "line": 1, "end": 1, "depth": 0}
    return Symbol(**{**given, "signature": f"class {name}", **changes})  # type: ignore[arg-type]


def test_a_name_with_many_homes_says_less_than_one_with_a_single_home() -> None:
    many = {f"m{n}.py": Source(definitions=(symbol("Common"),)) for n in range(9)}
    users = {f"u{n}.py": Source(words="Common") for n in range(5)}
    files = {
        **many,
        **users,
        "x.py": Source(definitions=(symbol("Rare"),)),
        "y.py": Source(words="Rare"),
    }
    assert rank.ranked(files)[0].symbol.name == "Rare"


def test_tree_sitter_is_not_loaded_into_this_process() -> None:
    code = (
        "import sys; import agent.tools.outline, agent.tools.search; "
        "print([m for m in sys.modules if m.startswith(('tree_sitter', 'pathspec', 'networkx'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout == "[]\n"
