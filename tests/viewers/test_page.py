# SPDX-License-Identifier: MIT OR Apache-2.0
"""The page (web/) in Chromium, as a one-file report: what it shows, and that each way to use it works."""
import json
import os
import pathlib
import time

import browser
import pages
import pytest
from conftest import ROOT, lacking

SHIFT = 8
# Markup, an attribute's end, the end of the block of data: if any of it were taken for HTML, the title would change.
HOSTILE = "<img src=x onerror=\"document.title='harmed'\"></script><script>document.title='harmed'</script>&'\">"


@pytest.fixture(scope="module", autouse=True)
def chromium():
    if not browser.find():
        lacking("no chromium: the page is not tested")


def open_page(page, path, address=""):
    page.open(f"file://{path}{address}")
    page.wait_for("document.getElementById('app')?.dataset.ready === 'yes'")
    page.wait_for("pollux.timeline.lanes.cells !== null && pollux.overview.answer !== null || !pollux.trace.lanes.length")
    page.wait_for("document.querySelector('#panel').children.length > 0")


@pytest.fixture
def page(html, trace):
    with browser.Page(1280, 800) as page:
        open_page(page, html(trace))
        yield page
        assert page.errors == []


def picture(page, name):
    folder = os.environ.get("POLLUX_TEST_PICTURES")
    if folder:
        time.sleep(0.5)
        page.screenshot(pathlib.Path(folder) / f"page-{name}.png")


def state(page, what="[from, to]"):
    return page.eval(f"(({{ from, to, span, begin, selection, table, open }}) => ({what}))(pollux.state)")


def text(page, selector):
    return page.eval(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")


def canvas(page, selector="#lanes canvas"):
    """Its place on the screen: left, top, width, height."""
    return page.eval(f"(({{ left, top, width, height }}) => [left, top, width, height])"
                     f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")


def settled(page):
    """Nothing is asked for, and the last picture is drawn."""
    page.eval("new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 350))")


def longest(report):
    return report["longest_polls"][0]


def select_longest(page, report):
    poll = longest(report)
    page.eval(f"pollux.state.look({poll['begin_ns']} - {poll['duration_ns']}, {poll['begin_ns']} + 2 * {poll['duration_ns']})")
    page.eval("pollux.tables.loadNow()")
    page.eval(f"pollux.goToTime(undefined, {poll['begin_ns']}, {poll['begin_ns'] + poll['duration_ns']}, "
              f"'{poll['name']}/{poll['tid']}')")
    page.wait_for("pollux.state.selection?.type === 'poll' && pollux.detail.current")
    return poll


def test_what_it_shows_first(page, report, trace):
    told = report(trace)
    assert len(told["findings"]) > 0
    shown = page.eval("[...document.querySelectorAll('#findings li .sentence')].map(e => e.textContent)")
    assert shown == [f["text"] for f in told["findings"] if f["score"] >= 15]
    names = page.eval("pollux.timeline.lanes.rows.filter(r => r.type === 'family').map(r => r.lane.name)")
    assert sorted(names) == sorted(f["name"] for f in told["families"] if f["role"] != "worker")
    workers = page.eval("pollux.trace.lanes.filter(l => l.role === 'worker' && l.kind === 'thread').map(l => l.tid)")
    assert sorted(workers) == sorted(w["tid"] for w in told["workers"] if w["role"] == "worker")
    for colour in ("poll", "ready"):  # something is drawn, in the colours of the legend
        assert page.eval(f"""(() => {{
            const c = document.querySelector('#lanes canvas'), probe = document.createElement('canvas').getContext('2d');
            probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--{colour}');
            probe.fillRect(0, 0, 1, 1);
            const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let n = 0;
            for (let i = 0; i < d.length; i += 4)
                n += d[i] === r && d[i + 1] === g && d[i + 2] === b;
            return n;
        }})()""") > 20
    picture(page, "first")


def test_sums_are_those_of_the_report(page, report, trace):
    """What the page makes of its columns for a window, of the window that is everything."""
    told = report(trace, "--longest", "50")
    made = page.eval("""(() => {
        const d = pollux.data.inlined, begin = d.begin_ns;
        d.begin_ns = -1; // so that it does not give the report that it has
        const r = d.reportIn({ from: 0, to: d.end_ns });
        d.begin_ns = begin;
        return r;
    })()""")
    theirs = {f["name"]: f for f in told["families"]}
    ours = {f["name"]: f for f in made["families"]}
    assert ours.keys() == theirs.keys()
    for name, family in theirs.items():
        for key in ("tasks", "polls", "waiting_ns", "scheduled_ns", "blocked_ns", "alive", "completed"):
            if family["role"] != "worker":
                assert ours[name][key] == family[key], (name, key)
        if family["polls_of_unknown_length"] == 0:
            for key in ("count", "sum", "min", "max"):
                assert ours[name]["poll_ns"][key] == family["poll_ns"][key], (name, key)
    assert [p["duration_ns"] for p in made["longest_polls"][:20]] == [p["duration_ns"] for p in told["longest_polls"][:20]]
    assert {(w["tid"], w["polls"], w["busy_ns"], w["parked_ns"], w["blocked_ns"]) for w in made["workers"]} == \
        {(w["tid"], w["polls"], w["busy_ns"], w["parked_ns"], w["blocked_ns"]) for w in told["workers"]}


def test_cells_add_up(page):
    """However many cells a window is cut into, what is in them is the same."""
    assert page.eval("""(() => {
        const d = pollux.data.inlined, sum = a => a.reduce((x, y) => x + y, 0);
        return [1, 7, 256, 2048].map(n => {
            const { lanes } = d.cells({ from: 0, to: d.end_ns, n });
            return Object.values(lanes).map(l => [sum(l.polls), Math.round(sum(l.polling_ns) / 1000)]);
        }).every((x, _, all) => JSON.stringify(x) === JSON.stringify(all[0]));
    })()""")


def test_keys_zoom_and_pan(page):
    whole = state(page)
    width = whole[1] - whole[0]
    page.eval("document.body.focus()")
    for _ in range(4):
        page.key("w", "KeyW")
    zoomed = state(page)
    assert zoomed[1] - zoomed[0] == pytest.approx(width / 1.5 ** 4)
    page.key("d", "KeyD")
    right = state(page)
    assert right[0] > zoomed[0] and right[1] - right[0] == pytest.approx(zoomed[1] - zoomed[0])
    page.key("a", "KeyA")
    assert state(page) == pytest.approx(zoomed)
    page.key("s", "KeyS")
    assert state(page)[1] - state(page)[0] == pytest.approx(width / 1.5 ** 3)
    page.key("0", "Digit0")
    assert state(page) == whole


def test_wheel_and_drag(page):
    left, top, width, height = canvas(page)
    whole = state(page)
    page.wheel(left + width / 4, top + 60, -600)
    page.wait_for(f"pollux.state.width < {whole[1] - whole[0]}")
    zoomed = state(page)
    at = whole[0] + (whole[1] - whole[0]) / 4  # what is under the pointer stays there
    assert zoomed[0] + (zoomed[1] - zoomed[0]) / 4 == pytest.approx(at, abs=(zoomed[1] - zoomed[0]) / 100)
    page.drag((left + 400, top + 60), (left + 300, top + 60))
    moved = state(page)
    assert moved[0] - zoomed[0] == pytest.approx((zoomed[1] - zoomed[0]) * 100 / width, rel=0.03)
    page.wheel(left + 300, top + 60, 200, SHIFT)
    page.wait_for(f"pollux.state.from > {moved[0]}")
    before = state(page)
    page.drag((left + 100, top + 60), (left + 200, top + 60), SHIFT)
    page.wait_for(f"pollux.state.width < {before[1] - before[0]} / 4")
    chosen = state(page)
    page.key("[", "BracketLeft")
    assert state(page) == pytest.approx(before)
    page.key("]", "BracketRight")
    assert state(page) == pytest.approx(chosen)


def test_minimap(page):
    left, top, width, height = canvas(page, "#overview canvas")
    whole = state(page)
    page.drag((left + 200, top + 30), (left + 300, top + 30))
    drawn = state(page)
    assert drawn[1] - drawn[0] == pytest.approx((whole[1] - whole[0]) * 100 / width, rel=0.05)
    page.drag((left + 250, top + 30), (left + 350, top + 30))
    assert state(page)[0] - drawn[0] == pytest.approx((whole[1] - whole[0]) * 100 / width, rel=0.05)


def test_a_finding_leads_to_its_place(page, report, trace):
    told = report(trace)
    index = next(i for i, f in enumerate(told["findings"]) if "time_ns" in f and f["time_ns"] > 0)
    whole = state(page)
    page.eval(f"document.querySelectorAll('#findings li button')[{index}].click()")
    page.wait_for(f"pollux.state.width < {whole[1] - whole[0]}")
    begin, end = state(page)
    assert begin <= told["findings"][index]["time_ns"] <= end
    assert page.eval("document.querySelector('#findings [aria-pressed=true] .sentence').textContent") == told["findings"][index]["text"]
    picture(page, "finding")
    page.eval("pollux.findings.all = true")
    order = []
    for _ in range(len(told["findings"]) + 1):
        page.key("j", "KeyJ")
        settled(page)
        order.append(state(page, "selection.id"))
    assert sorted(order[:-1]) == list(range(len(told["findings"]))) and order[-1] == order[0]  # in a circle
    page.key("k", "KeyK")
    settled(page)
    assert state(page, "selection.id") == order[-2]


def test_a_finding_leads_to_its_task(page, report, trace):
    told = report(trace)
    index, finding = next((i, f) for i, f in enumerate(told["findings"]) if f["tasks"])
    page.eval(f"pollux.findings.goTo({index})")
    page.wait_for("document.querySelector('#findings .about button')")
    page.eval("document.querySelector('#findings .about button').click()")
    page.wait_for("document.querySelector('#detail .life li')")
    assert text(page, "#detail h2").endswith(f"#{finding['tasks'][0]['number']}")


def test_a_poll_is_selected_by_click(page, report, trace):
    poll = longest(report(trace))
    page.eval(f"pollux.state.look({poll['begin_ns']} - {poll['duration_ns']}, {poll['begin_ns']} + 2 * {poll['duration_ns']})")
    settled(page)
    left, top, width, _ = canvas(page)
    y = page.eval(f"(() => {{ const r = pollux.timeline.lanes.rowOf(pollux.trace.lanes.find(l => l.tid === {poll['tid']}).id);"
                  "pollux.timeline.reveal(r.lane.id); return r.y + r.height / 2 - pollux.timeline.box.scrollTop; })()")
    page.mouse("mouseMoved", left + width / 2, top + y)
    page.wait_for("!document.getElementById('tooltip').hidden")
    page.click(left + width / 2, top + y)
    page.wait_for("pollux.state.selection?.type === 'poll' && document.querySelector('#detail h2')")
    shown = text(page, "#detail")
    assert f"#{poll['task']}" in shown and poll["outcome"] in shown and f"{poll['name']}/{poll['tid']}" in shown
    for call in poll["blocking_calls"]:
        assert call["call"] in shown
    picture(page, "poll")
    page.key("Escape", "Escape")
    page.wait_for("pollux.state.selection === null && !document.body.classList.contains('selected')")


def test_walk_along_wakes(page):
    """n goes to whom a poll woke, p back to who woke that one."""
    poll = page.eval("""(() => {
        const d = pollux.data.inlined;
        for (let i = 0; i < d.tables.polls.n; i++) {
            const first = d.wakesOf(i)[0];
            if (first && d.wokenBy(Number(first.poll))?.poll === String(i))
                return [String(i), first.poll];
        }
        return null;
    })()""")
    assert poll
    page.eval(f"pollux.goToPoll('{poll[0]}')")
    page.wait_for(f"pollux.detail.current?.id === '{poll[0]}'")
    settled(page)
    picture(page, "wakes")
    page.key("n", "KeyN")
    page.wait_for(f"pollux.detail.current?.id === '{poll[1]}'")
    page.key("p", "KeyP")
    page.wait_for(f"pollux.detail.current?.id === '{poll[0]}'")
    page.key(".", "Period")
    page.wait_for(f"pollux.detail.current?.previous === '{poll[0]}' || pollux.detail.current?.next === null")
    page.key("t", "KeyT")
    page.wait_for("pollux.state.selection.type === 'task' && document.querySelector('#detail .life')")
    picture(page, "task")


def test_a_family_opens_into_tasks(page):
    family = page.eval("pollux.trace.lanes.filter(l => l.kind === 'family' && l.role === 'task').sort((a, b) => b.tasks - a.tasks)[0]")
    page.eval(f"document.querySelector('[data-row=open{family['id']}]').click()")
    page.wait_for(f"pollux.timeline.lanes.rows.some(r => r.type === 'task' && r.lane.id === {family['id']})")
    settled(page)
    picture(page, "tasks")
    first = page.eval("pollux.timeline.lanes.rows.find(r => r.type === 'task').task")
    page.eval("document.querySelector('.row.task').click()")
    page.wait_for(f"pollux.state.selection?.type === 'task' && pollux.state.selection.id === '{first['task']}'")
    page.wait_for("document.querySelector('#detail .life li')")
    page.eval("(s => { s.value = 'wait'; s.dispatchEvent(new Event('change')); })(document.querySelector('.sort select'))")
    page.wait_for("(t => t.length > 1 && t.every((x, i) => !i || x.wait_ns <= t[i - 1].wait_ns))"
                  f"(pollux.timeline.lanes.tasks.get({family['id']}).tasks)")


@pytest.mark.parametrize("table", ["families", "requests", "waits", "longest", "threads", "futures", "cpu", "off-cpu"])
def test_tables(page, table):
    page.eval(f"document.getElementById('tab-{table}').click()")
    page.wait_for("document.querySelector('#panel table, #panel .calm')")
    picture(page, f"table-{table}")
    if page.eval("document.querySelector('#panel table') === null"):
        assert "record --" in text(page, "#panel") or "debug information" in text(page, "#panel") or \
            "window" in text(page, "#panel")
        return
    # A click on a head sorts, a second one the other way round.
    column = page.eval("(b => { b[b.length - 1].click(); return b.length - 1; })(document.querySelectorAll('#panel th button'))")
    first = page.eval("document.querySelector('#panel th[aria-sort]').getAttribute('aria-sort')")
    page.eval(f"document.querySelectorAll('#panel th button')[{column}].click()")
    assert page.eval("document.querySelector('#panel th[aria-sort]').getAttribute('aria-sort')") != first
    rows = page.eval("document.querySelectorAll('#panel tbody tr').length")
    word = page.eval("document.querySelector('#panel tbody td button').textContent")
    page.eval(f"(f => {{ f.value = {json.dumps(word)}; f.dispatchEvent(new Event('input')); }})(document.querySelector('.scope input[type=search]'))")
    left = page.eval("document.querySelectorAll('#panel tbody tr').length")
    assert 1 <= left <= rows


def test_families_of_tables_are_called_as_their_lanes(page, report, trace):
    """The whole name is in the tooltip, and the filter finds it, too."""
    page.wait_for("document.querySelector('#panel tbody tr')")
    shown = page.eval("[...document.querySelectorAll('#panel tbody tr')].map(r => [r.cells[0].innerText, r.cells[0].title])")
    lanes = page.eval("pollux.trace.lanes.filter(l => l.kind === 'family').map(l => [l.short, l.name])")
    assert shown and all(row in lanes for row in shown)
    assert any(short != name for short, name in shown)
    name = max((name for _, name in shown), key=len)
    page.eval(f"(f => {{ f.value = {json.dumps(name)}; f.dispatchEvent(new Event('input')); }})(document.querySelector('.scope input[type=search]'))")
    assert page.eval("[...document.querySelectorAll('#panel tbody tr')].map(r => r.cells[0].title)") == [name]


def test_tables_follow_the_window(page, report, trace):
    told = report(trace)
    span = told["duration_ns"]
    polls = "pollux.tables.report.families.reduce((n, f) => n + f.polls, 0)"
    everything = page.eval(polls)
    page.eval(f"pollux.state.look({span // 4}, {span // 2})")
    page.wait_for(f"{polls} < {everything}")
    part = page.eval(polls)
    exact = page.eval(f"""(() => {{
        const p = pollux.data.inlined.tables.polls;
        let n = 0;
        for (let i = 0; i < p.n; i++)
            n += p.begin[i] < pollux.tables.window.to && p.end[i] >= pollux.tables.window.from;
        return n;
    }})()""")
    assert part == exact > 0
    page.eval("document.getElementById('whole').click()")
    page.wait_for(f"{polls} === {everything}")
    page.eval("document.getElementById('whole').click()")
    page.wait_for(f"{polls} === {part}")


def test_tables_of_a_window_that_costs_too_much(page):
    """A server may refuse: then the tables are of the whole trace, and say so."""
    page.wait_for("pollux.tables.report")
    everything = page.eval("pollux.tables.report.families.reduce((n, f) => n + f.polls, 0)")
    page.eval("(ask => { pollux.data.report = q => 'from' in q ? Promise.reject(new Error('too long')) : ask(q); })"
              "(pollux.data.report.bind(pollux.data))")
    page.eval("pollux.state.look(0, 1e7)")
    page.wait_for("document.querySelector('.options').textContent === 'of the whole trace'")
    assert page.eval("pollux.tables.report.families.reduce((n, f) => n + f.polls, 0)") == everything
    page.eval("pollux.state.fit()")
    page.wait_for("document.querySelector('.options').textContent === ''")


def test_a_row_leads_to_its_place(page, report, trace):
    poll = longest(report(trace))
    page.eval("document.getElementById('tab-longest').click()")
    page.wait_for("document.querySelector('#panel tbody td button')")
    page.eval("document.querySelector('#panel tbody td button').click()")
    page.wait_for("pollux.detail.current")
    assert page.eval("[pollux.detail.current.from, pollux.detail.current.to]") == [
        poll["begin_ns"], poll["begin_ns"] + poll["duration_ns"]]


@pytest.mark.parametrize("kind", ["waiting", "cpu-flame"])
def test_flame_graphs(html, kind):
    with browser.Page(1280, 800) as page:
        open_page(page, html(ROOT / "tests/traces/good" / ("requests.plx" if kind == "waiting" else "inside.plx")))
        page.eval(f"document.getElementById('tab-{kind}').click()")
        page.wait_for("document.querySelector('#panel canvas.flame')")
        picture(page, f"flame-{kind}")
        # What is in a node is in its children, or its own.
        assert page.eval("""(() => {
            const check = n => n.value > 0 && n.children.reduce((a, c) => a + c.value, 0) <= n.value && n.children.every(check);
            return pollux.tables.flame.root.children.length > 0 && check(pollux.tables.flame.root);
        })()""")
        page.eval("document.querySelector('#panel canvas').focus()")
        page.key("ArrowDown", "ArrowDown")
        name = page.eval("pollux.tables.flame.chosen.name")
        page.eval("document.querySelector('#panel canvas').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))")
        assert page.eval("pollux.tables.flame.path") == [name]
        assert name in text(page, ".where")
        assert page.errors == []


def test_waiting_flame_is_all_waiting(page, report, trace):
    told = report(trace)
    page.eval("document.getElementById('tab-waiting').click()")
    page.wait_for("pollux.tables.flame.root?.value > 0")
    waiting = sum(f["waiting_ns"] for f in told["families"] if f["role"] != "worker")
    assert page.eval("pollux.tables.flame.root.value") == pytest.approx(waiting, rel=1e-9)


@pytest.mark.parametrize("what", ["polls", "delays", "waits"])
def test_heat_map(page, report, trace, what):
    told = report(trace)
    page.eval("document.getElementById('tab-heat').click()")
    page.wait_for("document.querySelector('#panel canvas.heat')")
    page.eval(f"(s => {{ s.value = '{what}'; s.dispatchEvent(new Event('change')); }})(document.querySelector('.options select'))")
    page.wait_for(f"pollux.tables.heat.what === '{what}' && pollux.tables.heat.most > 0")
    settled(page)
    picture(page, f"heat-{what}")
    total = page.eval("pollux.tables.heat.answer.counts.flat().reduce((a, b) => a + b, 0)")
    if what == "polls":
        assert total == sum(f["polls"] for f in told["families"] if f["role"] != "worker")
    # A click goes to that time.
    left, top, width, height = canvas(page, "#panel canvas.heat")
    spot = page.eval("""(() => {
        const h = pollux.tables.heat, b = h.box, row = h.answer.counts.findIndex(r => r.some(n => n));
        const column = h.answer.counts[row].findIndex(n => n);
        return [64 + (column + 0.5) * b.w, h.size[1] - 20 - (row - b.first + 0.5) * b.h, h.answer.from + (column + 0.5) * h.answer.cell_ns];
    })()""")
    page.click(left + spot[0], top + spot[1])
    begin, end = state(page)
    assert begin <= spot[2] <= end and end - begin < told["duration_ns"] / 10


def test_search(page):
    family = page.eval("pollux.trace.lanes.find(l => l.kind === 'family' && l.role === 'task').short")
    page.key("/", "Slash")
    assert page.eval("document.activeElement === pollux.search.input")
    page.eval(f"pollux.search.input.value = {json.dumps(family)}")
    page.eval("pollux.search.findNow()")
    n = page.eval("pollux.search.hits.length")
    assert n > 1
    seen = []
    for _ in range(n + 1):
        page.key("Enter", "Enter")
        settled(page)
        seen.append(page.eval("pollux.search.at"))
    assert seen == [*range(n), 0]  # in a circle
    picture(page, "search")
    page.key("Enter", "Enter", SHIFT)
    settled(page)
    assert page.eval("pollux.search.at") == n - 1
    number = page.eval("String(pollux.data.inlined.tables.tasks.number[0])")
    page.eval(f"pollux.search.input.value = '#{number}'")
    page.eval("pollux.search.findNow()")
    page.key("Enter", "Enter")
    page.wait_for("pollux.state.selection?.type === 'task'")
    assert text(page, "#detail h2").endswith(f"#{number}")


def test_a_link_shows_the_same(page, html, trace, report):
    select_longest(page, report(trace))
    page.eval("pollux.state.toggle(pollux.trace.lanes.find(l => l.kind === 'family').id, true)")
    page.eval("document.getElementById('tab-threads').click()")
    settled(page)
    address = page.eval("location.hash")
    before = state(page, "[from, to, selection, table, [...open]]")
    shown = text(page, "#detail")
    with browser.Page(1280, 800) as other:
        open_page(other, html(trace), address)
        other.wait_for("document.querySelector('#detail h2')")
        after = state(other, "[from, to, selection, table, [...open]]")
        assert after[2:] == before[2:]
        assert after[:2] == pytest.approx(before[:2], abs=1)
        assert text(other, "#detail") == shown
        assert other.errors == []


@pytest.mark.parametrize("address", ["#t=9-3", "#t=-5-x&poll=99999999&open=7777,x", "#task=%zz", "#lane=4711&table=nothing",
                                     "#finding=99", "#poll=<img src=x onerror=alert(1)>", "#t=0-99999999999999999999",
                                     pytest.param(f"#t={'9' * 400}-{'9' * 400}", id="infinite"), "#table=constructor", "#open=0,7777"])
def test_any_address_does_no_harm(html, trace, address):
    with browser.Page(1280, 800) as page:
        open_page(page, html(trace), address)
        begin, end = state(page)
        assert 0 <= begin < end <= page.eval("pollux.state.span")
        assert page.eval("document.querySelectorAll('img').length") == 0
        settled(page)
        assert page.eval("pollux.tables.id") == "families" and not page.eval("document.querySelector('#panel .caution')?.textContent")
        assert page.eval("document.getElementById('tooltip').hidden"), text(page, "#tooltip")


def test_copy_and_help(page, report, trace):
    told = report(trace)
    page.key("c", "KeyC")
    page.wait_for("pollux.copied")
    copied = page.eval("pollux.copied")
    for family in told["families"]:
        assert family["role"] == "worker" or family["name"] in copied
    page.key("l", "KeyL")
    page.wait_for("pollux.copied.includes('#t=')")
    page.key("?", "Slash")
    page.wait_for("document.querySelector('dialog').open")
    keys = text(page, "dialog")
    for word in ("zoom in", "next finding", "copy a link", "wheel"):
        assert word in keys
    picture(page, "help")
    page.eval("document.querySelector('dialog .close').click()")
    assert not page.eval("document.querySelector('dialog').open")


def test_the_window_can_be_saved(page):
    events = json.loads(page.eval("""(async () => {
        let saved = null;
        const make = URL.createObjectURL;
        URL.createObjectURL = blob => { saved = blob; return make(blob); };
        [...document.querySelectorAll('#buttons button')].find(b => b.textContent === 'Save').click();
        await new Promise(done => setTimeout(done, 500));
        return saved.text();
    })()"""))["traceEvents"]
    polls = page.eval("(p => p.n)(pollux.data.inlined.tables.polls)")
    assert sum(e["ph"] == "X" and e["cat"] == "poll" for e in events) == polls


def test_without_a_mouse(page):
    """From lane to lane and into one, by keys alone."""
    page.eval("document.body.focus()")
    page.key("ArrowDown", "ArrowDown")
    page.wait_for("pollux.state.selection?.type === 'lane'")
    first = state(page, "selection.id")
    page.key("ArrowDown", "ArrowDown")
    assert state(page, "selection.id") != first
    page.key("ArrowUp", "ArrowUp")
    assert state(page, "selection.id") == first
    page.key("Enter", "Enter")  # a worker: its longest poll
    page.wait_for("pollux.state.selection?.type === 'poll'")
    focusable = page.eval("[...document.querySelectorAll('button, input, select, canvas[tabindex]')].filter(e => e.tabIndex < 0 && "
                          "e.getAttribute('role') !== 'tab').length")
    assert focusable == 0


def test_hostile_names(html, synth):
    """Names that are markup are shown as they are written, everywhere."""
    trace = synth(60, 1500, HOSTILE)
    with browser.Page(1280, 800) as page:
        open_page(page, html(trace))
        title = page.eval("document.title")
        for tab in page.eval("[...document.querySelectorAll('[role=tab]')].map(t => t.id)"):
            page.eval(f"document.getElementById('{tab}').click()")
            settled(page)
        for i in range(page.eval("document.querySelectorAll('#findings li').length")):
            page.eval(f"pollux.findings.goTo({i})")
        page.eval("pollux.goToLane(pollux.trace.lanes.find(l => l.kind === 'family').id, true)")
        settled(page)
        assert HOSTILE in page.eval("document.querySelector('#detail').textContent")
        page.eval("pollux.goToPoll('0')")
        settled(page)
        page.eval("pollux.search.input.value = 'img'; pollux.search.findNow()")
        settled(page)
        assert page.eval("document.querySelectorAll('img, #app script, #tables script').length") == 0
        assert page.eval("document.title") == title != "harmed"
        assert HOSTILE in page.eval("document.querySelector('#tables').textContent")
        assert page.errors == []


def test_nothing_is_loaded(html, trace):
    """No request but for the file itself; and the policy would forbid it."""
    with browser.Page(1280, 800) as page:
        open_page(page, html(trace))
        assert page.eval("performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).map(e => e.name)") == []
        policy = page.eval("document.querySelector('meta[http-equiv]').content")
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert page.eval("fetch('https://example.org/').then(() => 'loaded', () => 'refused')") == "refused"


def test_scripts_off(html, trace, report):
    told = report(trace)
    with browser.Page(1280, 800) as page:
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.open(f"file://{html(trace)}")
        time.sleep(1)
        picture(page, "scripts-off")
        shown = text(page, "body")
        for finding in told["findings"]:
            assert finding["text"] in shown
        for family in told["families"]:
            assert family["name"] in shown
        for title in ("Families", "Longest polls", "Threads"):
            assert title in shown


def test_on_paper(page, report, trace):
    """In print there are the tables, not the canvases."""
    page.call("Emulation.setEmulatedMedia", media="print")
    picture(page, "paper")
    assert page.eval("getComputedStyle(document.getElementById('app')).display") == "none"
    assert page.eval("getComputedStyle(document.getElementById('tables')).display") != "none"
    pdf = page.call("Page.printToPDF")["data"]
    assert len(pdf) > 10000


@pytest.mark.parametrize("sample", ["no-events", "small", "inside", "moments", "requests", "future"])
def test_every_sample(html, sample):
    """Also a trace of nothing: it says so, and nothing fails."""
    with browser.Page(1280, 800) as page:
        open_page(page, html(ROOT / f"tests/traces/good/{sample}.plx"))
        for tab in page.eval("[...document.querySelectorAll('[role=tab]')].map(t => t.id)"):
            page.eval(f"document.getElementById('{tab}').click()")
            settled(page)
        for task in page.eval("[...pollux.data.inlined.tables.tasks.serial].map(String)"):
            page.eval(f"pollux.state.select('task', '{task}')")
            page.wait_for("document.querySelector('#detail h2, #detail .caution')")
            assert page.eval("document.querySelector('#detail .caution') === null")
        for poll in page.eval("[...pollux.data.inlined.tables.polls.begin.keys()].map(String)"):
            page.eval(f"pollux.goToPoll('{poll}')")
            page.wait_for(f"pollux.detail.current?.id === '{poll}'")
        picture(page, f"sample-{sample}")
        assert page.errors == []


def test_one_event(html, synth, report):
    trace = synth(0, 1)
    assert report(trace)["events"] == 1
    with browser.Page(1280, 800) as page:
        page.open(f"file://{html(trace)}")
        page.wait_for("document.getElementById('app')?.dataset.ready === 'yes'")
        settled(page)
        assert "1 events" not in text(page, "#facts") and "1 event" in text(page, "#facts")
        for tab in page.eval("[...document.querySelectorAll('[role=tab]')].map(t => t.id)"):
            page.eval(f"document.getElementById('{tab}').click()")
            settled(page)
        picture(page, "one-event")
        assert page.errors == []


def test_light_and_dark(html, trace):
    seen = []
    for scheme in ("light", "dark"):
        with browser.Page(2560, 1440) as page:
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            open_page(page, html(trace))
            page.eval("pollux.findings.goTo(0)")
            settled(page)
            picture(page, f"large-{scheme}")
            seen.append(page.eval("getComputedStyle(document.body).backgroundColor"))
    assert seen[0] != seen[1]


def test_axe(html, trace, report):
    """Nothing that the checker of accessibility calls serious, in both colour schemes, with all that can be open."""
    missing = pages.missing()
    if missing and not (pages.cache_dir() / "done").exists():
        lacking(f"no {missing} to fetch axe with")
    axe = (pages.fetch() / "axe.min.js").read_text()
    for scheme in ("light", "dark"):
        with browser.Page(1280, 800) as page:
            page.call("Page.setBypassCSP", enabled=True)
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            open_page(page, html(trace))
            page.eval(axe + "; 0", timeout=120)
            for step in ("0", "pollux.goToLane(pollux.trace.lanes.find(l => l.kind === 'family').id, true)",
                         "pollux.goToPoll('3')", "pollux.selectTask()", "document.getElementById('tab-heat').click()",
                         "document.getElementById('tab-longest').click()", "pollux.help()"):
                page.eval(f"{step}; 0")
                settled(page)
                found = page.eval("axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map("
                                  "v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + ' ' + n.failureSummary).join(' | ')))",
                                  timeout=300)
                assert found == [], (scheme, step)


def test_size(html, report, synth):
    """1 MB for 100,000 events, and never above 20 MB."""
    trace = synth(1600, 1500)
    n = report(trace)["events"]
    assert n > 100_000
    assert html(trace).stat().st_size <= 1_000_000 * n / 100_000


def test_a_long_trace(html, report, synth):
    """What does not fit is left out, the shortest first, and the page says so; sums are still those of all."""
    trace = synth(42_000, 1500)
    told = report(trace)
    assert html(trace).stat().st_size <= 20_000_000
    with browser.Page(1280, 800) as page:
        open_page(page, html(trace))
        left_out = page.eval("pollux.trace.left_out")
        assert left_out > 0 and f"{left_out:,}" in text(page, "#findings")
        kept = page.eval("pollux.data.inlined.tables.polls.n")
        assert kept + left_out == sum(f["polls"] for f in told["families"] if f["role"] != "worker")
        assert page.eval("Math.min(...pollux.data.inlined.tables.polls.length.slice(0, 100000))") >= \
            page.eval("pollux.data.inlined.tables.polls.leftOutBelow")
        for worker in told["workers"]:
            sums = page.eval(f"""(() => {{
                const lane = pollux.trace.lanes.find(l => l.tid === {worker['tid']}), sum = a => a.reduce((x, y) => x + y, 0);
                const c = pollux.timeline.lanes.cells.lanes[lane.id];
                return [sum(c.polls), sum(c.polling_ns), sum(c.parked_ns)];
            }})()""")
            cell = page.eval("pollux.timeline.lanes.cells.cell_ns")
            assert sums[0] == worker["polls"]
            assert sums[1] == pytest.approx(worker["busy_ns"], abs=1024 * cell / 1000)  # each is rounded up to a part
            assert sums[2] == pytest.approx(worker["parked_ns"], abs=1024 * cell / 1000)
        page.eval("pollux.findings.goTo(0)")
        settled(page)
        picture(page, "long")
        page.eval("pollux.state.look(pollux.state.span / 2, pollux.state.span / 2 + 3e6)")
        settled(page)
        picture(page, "long-near")
        assert page.errors == []
