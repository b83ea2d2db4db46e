# SPDX-License-Identifier: MIT OR Apache-2.0
"""The questions of docs/view.md, each answered with the mouse and the keys alone, in as many clicks as it says."""
import json
import re
from pathlib import Path

import browser
import pytest
from conftest import GOOD, ROOT
from test_page import canvas, chromium, open_page, picture, settled, text  # noqa: F401

MOST = 5
ROWS = re.findall(r"^\| (.+\?) \| (.+) \|$", (ROOT / "docs/view.md").read_text(), re.M)
DOCUMENTED = {question: max([0, *map(int, re.findall(r"\b(\d+): ", clicks))]) for question, clicks in ROWS}


class Visitor:
    """Does what a person does, and counts. Whatever it clicks is on the screen, and nothing is before it."""

    def __init__(self, page):
        self.page, self.n = page, 0

    def click(self, selector, with_text=""):
        found = (f"[...document.querySelectorAll({json.dumps(selector)})].find(e => e.checkVisibility() && "
                 f"e.textContent.includes({json.dumps(with_text)}))")
        self.page.wait_for(found)
        settled(self.page)
        spot = self.page.eval(f"""(() => {{
            const e = {found};
            e.scrollIntoView({{ block: "nearest", inline: "nearest" }});
            const b = e.getBoundingClientRect(), x = b.left + Math.min(b.width, 60) / 2, y = b.top + b.height / 2;
            return e.contains(document.elementFromPoint(x, y)) ? [x, y] : null;
        }})()""")
        assert spot, f"{selector} {with_text} is covered"
        self.page.click(*spot)
        self.n += 1
        settled(self.page)

    def click_timeline(self, tid, at_ns):
        """The slice of that thread at that time."""
        settled(self.page)
        left, top, width, height = canvas(self.page)
        x, y = self.page.eval(f"""(() => {{
            const {{ state, timeline, trace }} = pollux, gutter = pollux.gutter();
            const row = timeline.lanes.rowOf(trace.lanes.find(l => l.tid === {tid}).id);
            return [({at_ns} - state.from) / (state.to - state.from), row.y + row.height / 2 - timeline.box.scrollTop];
        }})()""")
        assert 0 < x < 1 and 0 < y < height, "it is not on the screen"
        self.page.click(left + x * width, top + y)
        self.n += 1
        settled(self.page)

    def choose(self, selector, value):
        """Of a list of options: it opens with a click, and the option is another."""
        self.page.wait_for(f"document.querySelector({json.dumps(selector)})")
        self.page.eval(f"(s => {{ s.value = {json.dumps(value)}; s.dispatchEvent(new Event('change', {{ bubbles: true }})); }})"
                       f"(document.querySelector({json.dumps(selector)}))")
        self.n += 2
        settled(self.page)

    def key(self, key, code):
        self.page.key(key, code)
        self.n += 1
        settled(self.page)

    def type(self, word):
        """As one: what is typed into a field."""
        self.page.call("Input.insertText", text=word)
        self.n += 1

    def reads(self, selector):
        self.page.wait_for(f"document.querySelector({json.dumps(selector)})?.innerText")
        return text(self.page, selector)


@pytest.fixture
def visit(html, synth):
    pages = []

    def begin(question, trace):
        assert question in DOCUMENTED
        page = browser.Page(1280, 800)
        pages.append((page, question))
        open_page(page, html(synth(mode="lock") if trace == "lock" else GOOD / f"{trace}.plx"))
        visitor = Visitor(page)
        pages[-1] = (page, question, visitor)
        return visitor

    yield begin
    for page, question, visitor in pages:
        picture(page, "question-" + "-".join(re.findall(r"\w+", question.lower())[:4]))
        assert page.errors == []
        page.__exit__()
        assert visitor.n == DOCUMENTED[question] <= MOST


def test_what_is_wrong(visit):
    visitor = visit("What is wrong?", "requests")
    assert "held its thread for 12.1 ms without yielding" in visitor.reads("#findings")


@pytest.mark.parametrize("sample, answer", [("inside", "src/hash.rs:9"), ("requests", "clock_nanosleep 11.9 ms")])
def test_which_task_blocks(visit, report, sample, answer):
    visitor = visit("Which task blocks its worker, with which call, at which line?", sample)
    poll = report(GOOD / f"{sample}.plx")["longest_polls"][0]
    visitor.click("#findings li button", "long polls")
    visitor.click_timeline(poll["tid"], poll["begin_ns"] + poll["duration_ns"] // 2)
    shown = visitor.reads("#detail")
    assert f"#{poll['task']}" in shown and answer in shown


def test_where_do_tasks_wait(visit):
    visitor = visit("Where do tasks wait most?", "requests")
    visitor.click("#tab-waits")
    assert "order.rs:24 shop::order" in visitor.reads("#panel tbody")


def test_who_holds_the_lock(visit):
    visitor = visit("Who holds the lock that they wait for?", "lock")
    visitor.click("#findings li button", "one holds a lock")
    assert "log.rs:31 shop::log::writer" in visitor.reads("#findings")
    visitor.click("#findings .about button", "task #5")
    shown = visitor.reads("#detail")
    assert "writer #5" in shown and "log.rs:31" in shown and "time::sleep" in shown


def test_what_happened_before(visit, report):
    visitor = visit("What happened just before this stall?", "requests")
    poll = report(GOOD / "requests.plx")["longest_polls"][0]
    visitor.click("#findings li button", "long polls")
    visitor.click_timeline(poll["tid"], poll["begin_ns"] + poll["duration_ns"] // 2)
    before = visitor.page.eval("pollux.detail.current.previous")
    visitor.key(",", "Comma")
    visitor.page.wait_for(f"pollux.detail.current?.id === '{before}'")
    assert "Poll of" in visitor.reads("#detail")


def test_why_was_it_late(visit):
    visitor = visit("Why was this task late?", "inside")
    visitor.click("#panel th button", "delay max")
    visitor.click("#panel tbody td button")
    family = visitor.page.eval("pollux.state.selection.id")
    visitor.click(f"[data-row=open{family}]")
    # The task that was late is below its family: what it was ready for, and what its thread did meanwhile.
    assert visitor.page.eval("pollux.timeline.lanes.rows.find(r => r.type === 'task').task.slices.some("
                             "s => s.kind === 'ready' && s.to - s.from > 2e8)")


def test_what_did_a_task_do(visit):
    visitor = visit("What did task 4242 do?", "requests")
    visitor.key("/", "Slash")
    visitor.type("#7")
    visitor.key("Enter", "Enter")
    visitor.page.wait_for("document.querySelector('#detail .life')")
    shown = visitor.reads("#detail")
    assert "#7" in shown and "order" in shown and "order.rs:24" in shown


def test_which_functions_use_the_cpu(visit):
    visitor = visit("Which functions use the CPU, in which tasks?", "inside")
    visitor.click("#tab-cpu-flame")
    visitor.page.wait_for("pollux.tables.flame.root?.value > 0")
    drawn = visitor.page.eval("pollux.tables.flame.boxes.map(b => b.node.name)")
    assert "hash" in drawn and "app::compress" in drawn


def test_did_it_get_worse(visit):
    visitor = visit("Did it get worse in the course of the recording?", "inside")
    visitor.click("#tab-heat")
    visitor.choose(".options select", "delays")
    visitor.page.wait_for("pollux.tables.heat.most > 0 && document.querySelector('#panel canvas.heat')")
    assert visitor.page.eval("pollux.tables.heat.what") == "delays"


def test_is_the_machine_to_blame(visit):
    visitor = visit("Is the machine to blame?", "inside")
    visitor.click("#tab-off-cpu")
    assert "preempted" in visitor.reads("#panel tbody")


def test_which_handler_is_slowest(visit, report):
    visitor = visit("Which handler is slowest?", "requests")
    visitor.click("#tab-requests")
    handlers = [h for f in report(GOOD / "requests.plx")["families"] for h in f.get("handlers", []) if h["handler"]]
    slowest = max(handlers, key=lambda h: h["latency_ns"]["p99"])
    assert slowest["handler"] in visitor.reads("#panel tbody tr")


@pytest.mark.parametrize("how", ["UTC", "the browser's zone", "from the begin"])
def test_what_happened_at_a_time(visit, how):
    visitor = visit("What happened at 14:03:27, when the log has an error?", "requests")
    if how == "the browser's zone":
        visitor.page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kathmandu")
    at, span = visitor.page.eval("[pollux.state.span * 3 / 4, pollux.state.span]")
    clock = ("(d => " + ("d.toISOString().slice(11, 23)" if how == "UTC" else
             "d.toTimeString().slice(0, 8) + '.' + String(d.getMilliseconds()).padStart(3, '0')") + ")"
             f"(new Date(pollux.trace.began_unix_ms + {at} / 1e6))")
    visitor.key("/", "Slash")
    visitor.type(f"{at / 1e6}ms" if how == "from the begin" else visitor.page.eval(clock))
    visitor.key("Enter", "Enter")
    visitor.page.wait_for("pollux.search.hits[0]?.kind === 'time' && pollux.state.width < pollux.state.span / 5")
    assert visitor.page.eval("(pollux.state.from + pollux.state.to) / 2") == pytest.approx(at, abs=1.01e6)


def test_which_tasks_are_polled_most(visit):
    visitor = visit("Which tasks of a kind are polled most?", "requests")
    visitor.click(".row.family .open")
    visitor.choose(".sort select", "poll")
    visitor.page.wait_for("(t => t.length > 1 && t.every((x, i) => !i || x.poll_ns <= t[i - 1].poll_ns))"
                          "([...pollux.timeline.lanes.tasks.values()][0]?.tasks ?? [])")


def test_what_piles_up(visit, report):
    visitor = visit("Which kind of task piles up?", "requests")
    visitor.click("#panel th button", "alive")
    most = max(f["alive"] for f in report(GOOD / "requests.plx")["families"] if f["role"] != "worker")
    column = visitor.page.eval("[...document.querySelectorAll('#panel th')].findIndex(h => h.innerText.startsWith('alive'))")
    assert visitor.page.eval(f"document.querySelector('#panel tbody tr').cells[{column}].innerText") == str(most)


def test_which_thread_works_most(visit, report):
    visitor = visit("Which thread does most of the work?", "requests")
    visitor.click("#tab-threads")
    busiest = max(report(GOOD / "requests.plx")["workers"], key=lambda w: w["busy_ns"])
    assert f"{busiest['name']}/{busiest['tid']}" in visitor.reads("#panel tbody tr")


def test_all_questions_are_asked():
    asked = re.findall(r'\bvisit\("([^"]+)"', Path(__file__).read_text())
    assert len(DOCUMENTED) == 15 and set(asked) == set(DOCUMENTED)
