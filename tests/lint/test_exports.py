# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check of public functions finds those without a caller."""
import exports
import pytest

HEADER = """/* They say called(). */
int called(int a,
	   int b);
const char *static_one(void);
void tested(void);
void seam(void);
void unused(void);
static inline int twice(int a) { return inlined(a); }
int inlined(int a);
"""
SOURCE = """int called(int a, int b) { return a + b; }
const char *static_one(void) { return "unused()"; }
void tested(void) {}
void seam(void) { static_one(); }
void unused(void) {} /* unused() */
int inlined(int a) { return a; }
"""


@pytest.fixture
def unused(tmp_path):
    for name, text in {
        "src/room/a.h": HEADER, "src/room/a.c": SOURCE.replace("void unused", "int x(void) { seam(); }\nvoid unused"),
        "src/room/b.c": "static int f(void)\n{\n\treturn called(1, 2) + twice(3);\n}\n",
        "tests/unit/t.c": "int main(void) { tested(); seam(); }\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return exports.check(tmp_path)[1]


def test_found(unused):
    assert unused == [
        "src/room/a.h:4: static_one() is called in its own file only: make it static",
        "src/room/a.h:5: tested() is called by tests only",
        "src/room/a.h:7: unused() is called nowhere",
    ]


def test_this_house():
    n_functions, found = exports.check(exports.Path(__file__).resolve().parents[2])
    assert found == []
    assert n_functions > 100
