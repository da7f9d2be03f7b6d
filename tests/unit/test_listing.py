"""Files that are found by a few of their letters."""

from time import perf_counter

from agent.commands.listing import Listing


def test_names_come_before_paths_and_paths_before_scattered_letters() -> None:
    files = ["a/tree.py", "tree/b.py", "t/r/e/e.py", "README.md", "src/entree.py"]
    listing = Listing(lambda: files)
    found = listing.fitting("tree")
    assert found[:2] == ["tree/", "a/tree.py"]
    assert found.index("src/entree.py") < found.index("t/r/e/e.py")
    assert listing.fitting("rdm") == ["README.md"]
    assert listing.fitting("zzz") == []
    assert listing.fitting("")[0] == "README.md"


def test_a_hundred_thousand_files_are_looked_through_while_one_types() -> None:
    files = [f"packages/p{n % 97}/src/module{n}/file{n}.ts" for n in range(100_000)]
    listing = Listing(lambda: files)
    listing.refresh()
    listing.wait(10)
    assert listing.fitting("file99999") == ["packages/p89/src/module99999/file99999.ts"]
    began = perf_counter()
    for typed in ("f", "file9", "p9f5", "aaaaaaaaaaaaaaaa", "pppppppppppppppp.ts", "zq"):
        listing.fitting(typed)
    assert perf_counter() - began < 6, "a second each at most, on a busy machine"
