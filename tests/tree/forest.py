# SPDX-License-Identifier: MIT OR Apache-2.0
"""The trees that the sources of the targets expect, and those that pollux shows, as nodes of text.

In the sources, comments hold them: `TREE name` begins the tree of the task whose root future is
`name`, `PART name` a fragment that `*name` stands for. `@mark` is the line that ends with the
comment `@mark`. `xN`: N of it side by side; `^N`: N of it one below the other.
"""
import re
from dataclasses import dataclass, field
from pathlib import Path

WHERE = Path(__file__).resolve().parent


@dataclass
class Node:
    text: str
    children: list = field(default_factory=list)

    def lines(self, depth=0):
        return ["  " * depth + self.text] + [
            line for child in self.children for line in child.lines(depth + 1)
        ]


def marks(name):
    """{mark: "file:line"} of a source."""
    lines = (WHERE / "src" / name).read_text().splitlines()
    found = [(re.search(r"// @(\w+)$", line), number) for number, line in enumerate(lines, 1)]
    return {mark[1]: f"{name}:{number}" for mark, number in found if mark}


class Forest:
    """What the sources of one target expect: trees by the name of their root future."""

    def __init__(self, *names):
        self.marks, self.parts, self.raw = {}, {}, {}
        for name in names:
            self._read(WHERE / "src" / name)
        self.trees = {name: self._expand(node)[0] for name, node in self.raw.items()}

    def _read(self, path):
        into, name, nodes = None, None, []  # of the block that is read; nodes: the way to the last
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if mark := re.search(r"// @(\w+)$", line):
                assert mark[1] not in self.marks, f"{path.name}: @{mark[1]} stands twice"
                self.marks[mark[1]] = f"{path.name}:{number}"
            if head := re.match(r"\s*// (TREE|PART) (\w+)$", line):
                into, name = (self.raw if head[1] == "TREE" else self.parts), head[2]
                assert name not in into, f"{path.name}: {head[1]} {name} stands twice"
                nodes = []
            elif into is not None and (row := re.match(r"\s*// ((?:  )+)(\S.*)$", line)):
                node = Node(row[2])
                del nodes[len(row[1]) // 2 - 1 :]
                if nodes:
                    nodes[-1].children.append(node)
                else:
                    into[name] = node
                nodes.append(node)
            else:
                into = None

    def _expand(self, node):
        """A node of a comment as the nodes that it means."""
        text, beside, below = node.text, 1, 1
        if times := re.search(r" ([x^])(\d+)$", text):
            text = text[: times.start()]
            beside, below = (int(times[2]), 1) if times[1] == "x" else (1, int(times[2]))
        if text.startswith("*"):
            return self._expand(self.parts[text[1:]]) * beside
        text = re.sub(r"@(\w+)", lambda mark: self.marks[mark[1]], text)
        made = Node(text, [n for child in node.children for n in self._expand(child)])
        for _ in range(below - 1):
            made = Node(text, [made])
        return [made] * beside


def short(name):
    """tree::own::recurse::{async_block#0} into recurse, some::path::Type<with, parameters> into Type<..>"""
    name = re.sub(r"<.*", "<..>", name)
    name = re.sub(r"(::\{[^}]*\})+", "", name)
    name = re.sub(r"\b([a-z_]\w*)<..>$", r"\1", name)  # a function's
    return name.rsplit("::", 1)[-1] if " " not in name else name


def shown(node, tasks):
    """A node of `pollux tree --json` in the words of the sources; tasks: names by address."""
    while node.get("internal") and len(node.get("children", ())) == 1:
        node = node["children"][0]
    text = node["name"] if node["kind"] == "leaf" else short(node["name"])
    if node["state"] == "suspended" and "file" in node:
        text += f" {Path(node['file']).name}:{node['line']}"
    if node["state"] != "suspended":
        text += f" [{node['state']}]"
    if "task_address" in node:
        text += f" of {tasks[node['task_address']]}"
    return Node(text, [shown(child, tasks) for child in node.get("children", ())])
