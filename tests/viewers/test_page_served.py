# SPDX-License-Identifier: MIT OR Apache-2.0
"""The page in Chromium, served by pollux view: the server's answers in place of the data in the page."""
import json
import pathlib
import shutil
import subprocess
import time
import urllib.request

import browser
import pytest
from conftest import GOOD, ROOT
from test_page import HOSTILE, canvas, chromium, picture, settled, state, text  # noqa: F401


class Served:
    """pollux view of a trace: its address, and what it said."""

    def __init__(self, pollux, trace, *options):
        self.process = subprocess.Popen([pollux, "view", trace, "--no-open", *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if "http://127.0.0.1:" in line:
                self.url = "http://" + line.split("http://", 1)[1].split()[0]
                return
        pytest.fail(f"pollux view printed no address: {self.process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()


def open_served(page, served, address=""):
    page.open(served.url + address)
    page.wait_for("document.getElementById('app')?.dataset.ready === 'yes'")
    page.wait_for("pollux.timeline.lanes.cells && pollux.overview.answer && document.querySelector('#panel').children.length")


@pytest.fixture
def served(pollux, trace):
    with Served(pollux, trace) as served:
        yield served


@pytest.fixture
def page(served):
    with browser.Page(1280, 800) as page:
        open_served(page, served)
        yield page
        assert page.errors == []


def test_first_picture(page, html, trace, report):
    told = report(trace)
    shown = page.eval("[...document.querySelectorAll('#findings li .sentence')].map(e => e.textContent)")
    assert shown == [f["text"] for f in told["findings"] if f["score"] >= 15]
    rows = "pollux.timeline.lanes.rows.filter(r => r.lane).map(r => [r.type, r.lane.short, r.lane.polls, r.lane.tasks ?? 0])"
    ours = page.eval(rows)
    assert len(ours) > 5
    settled(page)
    picture(page, "served")
    with browser.Page(1280, 800) as other:  # as the same trace with its data inside
        other.open(f"file://{html(trace)}")
        other.wait_for("document.getElementById('app')?.dataset.ready === 'yes'")
        assert sorted(r[1:2] + r[3:] for r in other.eval(rows)) == sorted(r[1:2] + r[3:] for r in ours)
        assert other.eval("pollux.trace.began_unix_ms") == page.eval("pollux.trace.began_unix_ms") > 0
    origins = page.eval("[...new Set(performance.getEntriesByType('resource').map(e => new URL(e.name).origin))]")
    assert origins == [page.eval("location.origin")]


def test_overview_is_of_tasks(page, report, trace):
    """Closures of spawn_blocking are there to block: neither their polls nor their calls are in it."""
    families = report(trace)["families"]
    sums = page.eval("Object.fromEntries(Object.entries(pollux.overview.answer.overview).map(([k, v]) => [k, v.reduce((a, b) => a + b, 0)]))")
    assert sums["blocked_ns"] == sum(f["blocked_ns"] for f in families if f["role"] == "task") > 0
    assert any(f["blocked_ns"] for f in families if f["role"] == "blocking")
    assert sums["busy_ns"] >= sums["blocked_ns"]


def test_families_are_called_as_in_the_report(pollux, report, synth):
    """Where the program has other kinds of tasks of their names, of which there was no task."""
    trace = synth(mode="twins")
    families = {f["kind"]: f["name"] for f in report(trace)["families"]}
    answers = {}
    with Served(pollux, trace) as served:
        for what in ("trace", "search?q=shop::", "flame?kind=waiting"):
            with urllib.request.urlopen(f"{served.url}api/{what}") as answer:
                answers[what.split("?")[0]] = json.load(answer)
    lanes = [lane for lane in answers["trace"]["lanes"] if lane["kind"] == "family"]
    assert {lane["family"]: lane["name"] for lane in lanes} == families
    hits = [hit["text"] for hit in answers["search"]["hits"] if hit["kind"] == "family"]
    assert hits and set(hits) <= set(families.values())
    assert {f["name"] for f in answers["flame"]["children"]} <= {lane["short"] for lane in lanes}
    assert not [lane["short"] for lane in lanes if lane["short"].endswith(")")]


def test_same_cells(page, html, trace):
    """The server's index and the page's own sums, over the whole trace."""
    sums = """(async () => {
        const a = await pollux.data.cells({ from: 0, to: pollux.trace.span_ns, n: 64 }), out = {};
        for (const l of pollux.trace.lanes)
            out[l.short] = ["polling_ns", "waiting_ns", "ready_ns", "blocked_ns", "polls"].map(k =>
                Math.round(Array.from(a.lanes[l.id]?.[k] ?? []).reduce((x, y) => x + y, 0) / (k === "polls" ? 1 : 1000)));
        return out;
    })()"""
    served = page.eval(sums)
    with browser.Page(1280, 800) as other:
        other.open(f"file://{html(trace)}")
        other.wait_for("document.getElementById('app')?.dataset.ready === 'yes'")
        inlined = other.eval(sums)
    for lane, numbers in inlined.items():
        if lane.endswith("Launch"):
            continue  # a worker's loop has no polls of a known length
        for ours, theirs in zip(numbers, served[lane]):
            assert theirs == pytest.approx(ours, abs=2), lane


@pytest.mark.parametrize("sample", ["synth", "inside"])
def test_same_flame_graphs(pollux, html, trace, sample, tmp_path):
    """Of waiting and of the CPU, by the server and by the page with its data inside: the same names and times."""
    name = trace if sample == "synth" else shutil.copy(ROOT / f"tests/traces/good/{sample}.plx", tmp_path)
    tree = """(async kind => {
        const plain = n => [n.name ?? "", n.value, (n.children ?? []).map(plain).sort((a, b) => a[0] < b[0] ? -1 : 1)];
        return plain(await pollux.data.flame({ kind, from: 0, to: pollux.trace.span_ns }))[2];
    })"""
    with browser.Page(1280, 800) as theirs, browser.Page(1280, 800) as ours, Served(pollux, name) as served:
        open_served(theirs, served)
        ours.open(f"file://{html(pathlib.Path(name))}")
        ours.wait_for("document.getElementById('app')?.dataset.ready === 'yes'")
        for kind in ("waiting", "cpu"):
            told = theirs.eval(f"{tree}('{kind}')")
            assert ours.eval(f"{tree}('{kind}')") == told
            assert told or kind == "cpu"


def test_polls_and_tasks(page, report, trace):
    poll = report(trace)["longest_polls"][0]
    page.eval("document.getElementById('tab-longest').click()")
    page.wait_for("document.querySelector('#panel tbody td button')")
    page.eval("document.querySelector('#panel tbody td button').click()")
    page.wait_for("pollux.detail.current")
    assert page.eval("[pollux.detail.current.from, pollux.detail.current.to]") == [
        poll["begin_ns"], poll["begin_ns"] + poll["duration_ns"]]
    shown = text(page, "#detail")
    assert f"#{poll['task']}" in shown and poll["outcome"] in shown
    for call in poll["blocking_calls"]:
        assert call["call"] in shown
    settled(page)
    picture(page, "served-poll")
    first = page.eval("pollux.detail.current.id")
    page.key(".", "Period")
    page.wait_for(f"pollux.detail.current.id !== '{first}' || !pollux.detail.current.next")
    page.key("t", "KeyT")
    page.wait_for("pollux.state.selection.type === 'task' && document.querySelector('#detail .life li')")
    assert f"#{poll['task']}" in text(page, "#detail h2")
    picture(page, "served-task")


def test_wakes(page):
    """From some poll that woke another one there and back."""
    there = page.eval("""(async () => {
        for (const lane of pollux.trace.lanes.filter(l => l.kind === 'thread')) {
            const { slices } = await pollux.data.slices({ lane: lane.id, from: 0, to: pollux.trace.span_ns, max: 40 });
            for (const s of slices.filter(s => s.kind === 'poll')) {
                const p = await pollux.data.poll({ id: s.id });
                const woken = p.wakes.find(w => w.poll);
                if (woken && (await pollux.data.poll({ id: woken.poll })).woken_by?.poll === p.id)
                    return [p.id, p.wakes.find(w => w.poll).poll];
            }
        }
        return null;
    })()""")
    assert there
    page.eval(f"pollux.goToPoll('{there[0]}')")
    page.wait_for(f"pollux.detail.current?.id === '{there[0]}'")
    page.key("n", "KeyN")
    page.wait_for(f"pollux.detail.current?.id === '{there[1]}'")
    page.key("p", "KeyP")
    page.wait_for(f"pollux.detail.current?.id === '{there[0]}'")
    settled(page)
    picture(page, "served-wakes")


def test_tables_follow(page, report, trace):
    span = report(trace)["duration_ns"]
    polls = "pollux.tables.report.families.reduce((n, f) => n + f.polls, 0)"
    page.wait_for("pollux.tables.report")
    everything = page.eval(polls)
    assert everything == sum(f["polls"] for f in report(trace)["families"])
    page.eval(f"pollux.state.look({span // 4}, {span // 2})")
    page.wait_for(f"{polls} < {everything}")
    part = report(trace, "--from", f"{span // 4}ns", "--to", f"{span // 2}ns")
    page.wait_for(f"{polls} === {sum(f['polls'] for f in part['families'])}")


@pytest.mark.parametrize("tab", ["families", "requests", "waits", "longest", "threads", "futures", "cpu", "off-cpu", "waiting", "cpu-flame", "heat"])
@pytest.mark.parametrize("sample", ["inside", "requests"])
def test_every_table(pollux, tmp_path, tab, sample):
    trace = shutil.copy(ROOT / f"tests/traces/good/{sample}.plx", tmp_path)  # an index will lie next to it
    with Served(pollux, trace) as served, browser.Page(1280, 800) as page:
        open_served(page, served, f"#table={tab}")
        page.wait_for("document.querySelector('#panel > *')")
        settled(page)
        assert page.eval("document.querySelector('#panel .caution')?.textContent ?? null") is None
        if (tab, sample) in {("families", "inside"), ("requests", "requests"), ("waits", "requests"), ("cpu", "inside"), ("off-cpu", "inside"),
                             ("waiting", "requests"), ("cpu-flame", "inside"), ("heat", "requests")}:
            assert page.eval("document.querySelector('#panel tbody tr, #panel canvas') !== null")
        picture(page, f"served-{sample}-{tab}")
        assert page.errors == []


def test_requests_by_handler(pollux, report, html, tmp_path):
    """A row for each handler, with the report's numbers, of the window; one file knows those of the whole."""
    trace = shutil.copy(GOOD / "requests.plx", tmp_path)
    told = report(trace)
    handlers = {h["handler"]: h["requests"] for f in told["families"] for h in f.get("handlers", []) if h["handler"]}
    rows = ("Object.fromEntries([...document.querySelectorAll('#panel tbody tr')].map(r => [r.cells[0].title, "
            "Number(r.cells[1].innerText.replaceAll(',', ''))]))")
    half = told["duration_ns"] // 2
    part = report(trace, "--to", f"{half}ns")
    first = {h["handler"]: h["requests"] for f in part["families"] for h in f.get("handlers", []) if h["handler"]}
    assert len(handlers) > 1 and first != handlers
    with Served(pollux, trace) as served, browser.Page(1280, 800) as page:
        open_served(page, served, "#table=requests")
        page.wait_for("document.querySelector('#panel tbody tr')")
        assert page.eval(rows) == handlers
        page.eval(f"pollux.state.look(0, {half})")
        page.wait_for(f"JSON.stringify({rows}) !== {json.dumps(json.dumps(handlers, separators=(',', ':')))}")
        settled(page)
        assert page.eval(rows) == first
    with browser.Page(1280, 800) as page:
        page.open(f"file://{html(pathlib.Path(trace))}#table=requests")
        page.wait_for("document.querySelector('#panel tbody tr')")
        page.eval(f"pollux.state.look(0, {half})")
        page.wait_for("document.querySelector('.options').textContent === 'of the whole trace'")
        assert page.eval(rows) == handlers


def test_a_family_opens(page):
    family = page.eval("pollux.trace.lanes.filter(l => l.kind === 'family' && l.role === 'task').sort((a, b) => b.tasks - a.tasks)[0].id")
    page.eval(f"document.querySelector('[data-row=open{family}]').click()")
    page.wait_for(f"pollux.timeline.lanes.rows.some(r => r.type === 'task' && r.lane.id === {family})")
    settled(page)
    picture(page, "served-tasks")
    page.eval("document.querySelector('.row.task').click()")
    page.wait_for("document.querySelector('#detail .life li')")


def test_a_finding_leads_to_its_task(page, report, trace):
    index, finding = next((i, f) for i, f in enumerate(report(trace)["findings"]) if f["tasks"])
    page.eval(f"pollux.findings.goTo({index})")
    page.wait_for("document.querySelector('#findings .about button')")
    page.eval("document.querySelector('#findings .about button').click()")
    page.wait_for("document.querySelector('#detail .life li')")
    assert text(page, "#detail h2").endswith(f"#{finding['tasks'][0]['number']}")


def test_search(page):
    family = page.eval("pollux.trace.lanes.find(l => l.kind === 'family' && l.role === 'task').name")
    page.eval(f"pollux.search.input.value = {json.dumps(family)}; pollux.search.findNow()")
    page.wait_for("pollux.search.hits.length > 0")
    page.eval("pollux.search.input.focus()")
    page.key("Enter", "Enter")
    page.wait_for("pollux.state.selection")


def test_save(page, served):
    """The address that a choice leads to, and that a trace comes from there."""
    addresses = page.eval("""(() => {
        const made = [], old = HTMLAnchorElement.prototype.click;
        HTMLAnchorElement.prototype.click = function () { made.push(this.getAttribute('href')); };
        const s = document.querySelector('#buttons select');
        for (const o of [...s.options].filter(o => o.value)) {
            s.value = o.value;
            s.dispatchEvent(new Event('change'));
        }
        HTMLAnchorElement.prototype.click = old;
        return made;
    })()""")
    assert len(addresses) >= 3
    for address in addresses:
        with urllib.request.urlopen(served.url + address) as answer:
            assert answer.status == 200 and len(answer.read()) > 100, address


def test_hostile_names(pollux, synth):
    with Served(pollux, synth(60, 1500, HOSTILE)) as served, browser.Page(1280, 800) as page:
        open_served(page, served)
        for tab in page.eval("[...document.querySelectorAll('[role=tab]')].map(t => t.id)"):
            page.eval(f"document.getElementById('{tab}').click()")
            settled(page)
        page.eval("pollux.goToLane(pollux.trace.lanes.find(l => l.kind === 'family').id, true)")
        settled(page)
        page.eval("pollux.search.input.value = 'img'; pollux.search.findNow()")
        settled(page)
        assert "onerror" in page.eval("document.querySelector('#detail').textContent")
        assert page.eval("document.querySelectorAll('img').length") == 0
        assert "harmed" not in page.eval("document.title")
        assert page.errors == []


def test_long_names(pollux, synth):
    """What tells a name from others is seen where there is no room for all of it."""
    with Served(pollux, synth(60, 1500, "a_module_whose_name_says_a_lot::" * 7)) as served, browser.Page(1280, 800) as page:
        open_served(page, served)
        labels = page.eval("[...document.querySelectorAll('.row.family .name span')].map(s => [s.textContent, s.scrollWidth <= s.clientWidth])")
        assert len(labels) >= 4 and all(fits for _, fits in labels), labels
        names = [name for name, _ in labels]
        for name in ("accept_loop", "handle_connection", "writer"):
            assert sum(shown.startswith(name[:10]) for shown in names) == 1, names
        rows = page.eval("[...document.querySelectorAll('#panel tbody tr')].map(r => [r.cells[0].innerText, r.cells[0].title])")
        assert all(len(shown) < 60 < len(whole) for shown, whole in rows) and len({shown for shown, _ in rows}) == len(rows), rows
        assert {"accept_loop", "handle_connection"} <= {shown for shown, _ in rows}


def test_many_short_slices(pollux, synth):
    """A task of thousands of polls is drawn, and says what is in a pixel of it, without all of them."""
    with Served(pollux, synth(2000, 5000)) as served, browser.Page(1280, 800) as page:
        open_served(page, served)
        family = page.eval("pollux.trace.lanes.find(l => l.short === 'accept_loop').id")
        page.eval(f"document.querySelector('[data-row=open{family}]').click()")
        page.wait_for("pollux.timeline.lanes.rows.some(r => r.type === 'task')")
        page.eval(f"pollux.timeline.reveal({family}, pollux.timeline.lanes.rows.find(r => r.type === 'task').task.task)")
        settled(page)
        task = page.eval("(({ polls, slices, thin }) => ({ polls, exact: slices.length, sums: thin.cell.length, n: thin.n.reduce((a, b) => a + b, 0) }))"
                         "(pollux.timeline.lanes.rows.find(r => r.type === 'task').task)")
        assert task["polls"] > 5000 and task["exact"] + task["sums"] < 3000 and task["n"] > task["polls"], task
        x, y = page.eval("(row => { const b = pollux.timeline.canvas.getBoundingClientRect(); const c = row.task.cells;"
                         "const at = row.task.thin.cell[row.task.thin.n.findIndex(n => n > 3)];"
                         "return [b.left + pollux.timeline.scale.x(c.from + (at + 0.5) * c.cell_ns), b.top + row.y - pollux.timeline.box.scrollTop + 8]; })"
                         "(pollux.timeline.lanes.rows.find(r => r.type === 'task'))")
        page.mouse("mouseMoved", x, y)
        page.wait_for("document.querySelector('#tooltip, .tooltip')?.textContent.includes('short slices')")
        picture(page, "served-short-slices")
        page.mouse("mousePressed", x, y, button="left", clickCount=1)
        page.mouse("mouseReleased", x, y, button="left", clickCount=1)
        page.wait_for("pollux.state.selection?.type === 'task' && document.querySelector('#detail .life li')")
        assert page.errors == []


def test_a_part_of_a_trace(pollux, tmp_path):
    """The head says that the file ends too early, and how long it is in the unit that people expect."""
    part = tmp_path / "part.plx"
    part.write_bytes((GOOD / "future.plx").read_bytes()[:-40])
    with Served(pollux, part) as served, browser.Page(1280, 800) as page:
        open_served(page, served)
        assert "incomplete" in text(page, "#facts") and "the trace ends" in page.eval("document.querySelector('#facts .bad[title]').title")
        assert page.errors == []
    with Served(pollux, shutil.copy(GOOD / "future.plx", tmp_path)) as served, browser.Page(1280, 800) as page:
        open_served(page, served)
        assert "1.00 s" in text(page, "#facts") and "incomplete" not in text(page, "#facts") and "1000" not in text(page, ".scope")


def test_a_role_is_called_alike_everywhere(pollux, html, tmp_path):
    """Lane, table, what is selected, and the tables of the one-file report."""
    trace = shutil.copy(GOOD / "inside.plx", tmp_path)
    with Served(pollux, trace) as served, browser.Page(1280, 800) as page:
        open_served(page, served)
        lane = page.eval("pollux.trace.lanes.find(l => l.kind === 'family' && l.role === 'root').id")
        assert page.eval(f"document.querySelector('[data-row=lane{lane}] small').textContent").startswith("block_on · ")
        assert "block_on" in page.eval("[...document.querySelectorAll('#panel tbody tr')].map(r => r.cells[1].innerText)")
        page.eval(f"pollux.state.select('lane', {lane})")
        page.wait_for("document.querySelector('#detail')?.innerText.includes('block_on')")
        assert page.errors == []
    assert "<td>block_on</td>" in html(GOOD / "inside.plx").read_text()


def test_no_events(pollux, tmp_path):
    with Served(pollux, shutil.copy(ROOT / "tests/traces/good/no-events.plx", tmp_path)) as served, browser.Page(1280, 800) as page:
        page.open(served.url)
        page.wait_for("document.getElementById('app')?.dataset.ready === 'yes'")
        time.sleep(1)
        assert "no events" in text(page, "#findings")
        assert page.errors == []


def test_tables_of_a_window_with_too_many_events(page):
    """Then the server has sums of it, and the page says what they are."""
    page.eval("(ask => { pollux.data.report = q => ask('from' in q ? { ...q, max_events: 0 } : q); })(pollux.data.report.bind(pollux.data))")
    page.eval("pollux.state.look(1e7, 4e7)")
    page.wait_for("document.querySelector('.options').textContent === 'sums only' && document.querySelector('#panel tbody tr')")
    heads = page.eval("[...document.querySelectorAll('#panel th')].map(e => e.innerText.replace(/[^a-z0-9 ]/g, '').trim())")
    assert {"polls", "poll time", "poll max", "waiting"} <= set(heads) and not {"poll p99", "delay max"} & set(heads)
    page.eval("document.getElementById('tab-longest').click()")
    page.wait_for("document.querySelector('#panel .calm')?.textContent.includes('zoom in')")
