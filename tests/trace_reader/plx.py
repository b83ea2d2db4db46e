# SPDX-License-Identifier: MIT OR Apache-2.0
"""A reader of .plx files, written from docs/trace-format.md alone: it shares no code and no number with src/trace.

So it shows that the page is enough, and fails when the two say different things. It reads all chunks first and
then sorts, which is simple and needs memory for the whole file.
"""
import ctypes
import struct

NONE = 0xffffffff
META, EVENTS, ROUND, END, MOMENT = 1, 2, 3, 4, 5
MAX_PAYLOAD = 16 << 20
MAX_RAW = 64 << 20
MAX_STRING = MAX_SITES = MAX_EVENTS = 65536
MAX_INDEX = 4194303

EVENT = dict(enumerate(
    "none spawn poll_begin poll_end wake schedule cancel drop park unpark block thread_begin thread_end lost "
    "root_enter root_wake syscall off_cpu sample future_begin future_end machine resource "
    "left_cpu got_cpu woken ran_instead".split()))
OUTCOME = dict(enumerate(
    ["pending", "ready", "panicked", "cancelled", "unknown", "cancelled unpolled", "unseen"]))
WAKE = dict(enumerate(["scheduled", "running", "noop", "unknown"]))
CALL = dict(enumerate(
    "none futex epoll_wait epoll_pwait epoll_pwait2 poll ppoll select nanosleep clock_nanosleep usleep sleep read "
    "pread readv write pwrite writev recv recvfrom recvmsg send sendto sendmsg accept accept4 connect fsync "
    "fdatasync flock waitpid waitid pthread_join pthread_mutex_lock pthread_cond_wait pthread_cond_timedwait "
    "getaddrinfo sched_yield".split()))
REASON = dict(enumerate(["preempted", "sleeping", "uninterruptible", "other"]))
SAMPLE = dict(enumerate(
    ["cpu-clock", "cycles", "instructions", "blocked", "long poll, running", "long poll, blocked", "spawn",
     "panic"]))
MACHINE = dict(enumerate(["starting", "task local", "task global", "blocked"]))
RESOURCE = dict(enumerate("other semaphore mutex rwlock channel notify task io".split()))
ROLE = dict(enumerate(["task", "blocking", "worker", "root", "future"]))
CALL_NUMBER, CALL_CANNOT_WAIT = 0xff, 0x100
PLACE_OWN = 2
KIND_HANDLER = 1
NEIGHBOUR_IDLE = 1

# Name, how many fields there always are (the others came later), the fields: name:bits, name:s for a string.
RECORDS = {
    1: ("process", 6, "index:32 pid:32 exe:s cmdline:s start_ns:64 start_realtime_ns:64 clock_step_ps:64"),
    2: ("runtime", 6, "index:32 process:32 name:s version:s object:s verified:s"),
    3: ("thread", 4, "index:32 process:32 tid:32 name:s stream_of:32"),
    4: ("thread name", 2, "thread:32 name:s"),
    5: ("kind", 10, "index:32 process:32 runtime:32 role:16 address_named:16 vtable:64 poll:64 name:s full_name:s "
                    "scheduler:s"),
    6: ("coverage", 6, "index:32 process:32 item:s seen:64 total:64 note:s object:s runtime:s cover:32"),
    7: ("cost", 6, "stop_ns:64 attach_ns:64 recorder_cpu_ns:64 event_cost_ps:64 end_ns:64 end_reason:s begin_ns:64 "
                   "analysis_cpu_ns:64"),
    8: ("place", 7, "index:32 process:32 function:s file:s line:32 flags:32 awaits:s outer:32"),
    9: ("frame", 7, "index:32 process:32 addr:64 object:s function:s file:s line:32"),
    10: ("stack", 4, "index:32 parent:32 frame:32 flags:32"),
    11: ("cpu", 11, "index:32 process:32 n_threads:32 cpu_ns:64 run_delay_ns:64 n_periods:64 n_throttled:64 "
                    "throttled_ns:64 quota_ns:64 period_ns:64 cgroup:s"),
    12: ("neighbour", 5, "index:32 pid:32 tid:32 flags:32 name:s"),
    13: ("message", 2, "index:32 text:s"),
}
# Name, fields; :t is the number of a string, plus 1.
MOMENT_RECORDS = {
    1: ("head", "now_ns stop_ns flags n_found n_torn n_missed n_descriptors max_descriptors"),
    2: ("string", ""),
    3: ("kind", "role model vtable future_bytes task_bytes name:t full_name:t object:t site:t"),
    4: ("task", "kind address id state flags state_word references owner tid place queue:t no_tree:t"),
    5: ("thread", "tid name:t call"),
    6: ("note", "note:t"),
}
FRAME = "address object:t function:t file:t line"
NODE = ("n_children kind state waits_for granted name:t type:t file:t line detail:t ends:t resource value address bytes "
        "n_holds")
HELD = "held flags type:t address bytes length capacity senders"
HELD_KIND = dict(enumerate(["guard", "channel"]))
WHEN = dict(enumerate(["start", "end"]))
TASK_STATE = dict(enumerate(["idle", "scheduled", "running", "running, woken again", "done"]))
NODE_KIND = dict(enumerate(["async", "branch", "future", "leaf", "note"]))
NODE_STATE = dict(enumerate(["suspended", "unpolled", "done", "panicked", "disabled", "asleep"]))
WAITS_FOR = dict(enumerate(
    "unknown sleep semaphore mutex rwlock channel_send channel_receive oneshot notify task socket blocking".split()))


class Refused(Exception):
    """No pollux trace, or one that this reader cannot know."""


class Damaged(Exception):
    pass


class Cut(Exception):
    pass


def crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
        table.append(i)
    return table


TABLE = crc_table()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def decompress(stored, raw_size):
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    raw = ctypes.create_string_buffer(raw_size)
    if zstd.ZSTD_decompress(raw, raw_size, stored, len(stored)) != raw_size:
        raise Damaged("a column does not decompress")
    return raw.raw


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def __bool__(self):
        return self.at < len(self.data)

    def take(self, n):
        if n > len(self.data) - self.at:
            raise Damaged("too short")
        self.at += n
        return self.data[self.at - n:self.at]

    def uleb(self, bits=64):
        number = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7f) << shift
            if not byte & 0x80:
                break
        else:
            raise Damaged("a uleb of more than ten bytes")
        if number >> bits:
            raise Damaged("a number is too large")
        return number

    def string(self):
        n = self.uleb()
        if n > MAX_STRING:
            raise Damaged("a string is too long")
        return self.take(n).decode(errors="replace")


class Event:
    __slots__ = "time", "thread", "source", "type", "arg", "kind", "task", "value"

    def __init__(self, time, source, type, arg, kind, task, value):
        self.time, self.source, self.type, self.arg = time, source, type, arg
        self.thread = source  # see Trace.events
        self.kind, self.task, self.value = kind, task, value


def read_events(payload, damage):
    """The events of a chunk. Calls `damage` if they end too early."""
    head = Bytes(payload)
    thread, n = head.uleb(), head.uleb()
    if thread > MAX_INDEX or not 1 <= n <= MAX_EVENTS:
        raise Damaged("the head of a chunk of events")
    time, = struct.unpack("<Q", head.take(8))
    n_shapes = head.uleb()
    if not 1 <= n_shapes <= 64:
        raise Damaged("the number of shapes")
    shapes = [(head.uleb(16), head.uleb(16), head.take(1)[0]) for _ in range(n_shapes)]
    if any(how >> 5 or how & 7 > 4 for _, _, how in shapes):
        raise Damaged("a shape")
    n_columns = head.uleb()
    if not 6 <= n_columns <= 16:
        raise Damaged("the number of columns")
    sizes = [(head.uleb(), head.uleb()) for _ in range(n_columns)]
    if any(stored > raw for raw, stored in sizes) or sum(raw for raw, _ in sizes) > MAX_RAW:
        raise Damaged("the size of a column")
    stored = [head.take(size) for _, size in sizes]
    tags, time_low, time_high, name_low, name_high, rest = (
        data if len(data) == raw else decompress(data, raw) for data, (raw, _) in zip(stored[:6], sizes))
    if any(tag >> 2 >= n_shapes for tag in tags):
        raise Damaged("a shape that is not there")
    n_listed = sum(shapes[tag >> 2][2] & 7 == 3 for tag in tags)
    if not len(tags) == len(time_low) == n or not len(name_low) == len(name_high) == n_listed or \
            len(time_high) != sum((0, 1, 2, 7)[tag & 3] for tag in tags):
        raise Damaged("a column is not as long as the tags say")
    time_high, rest = Bytes(time_high), Bytes(rest)
    listed = zip(name_low, name_high)
    names, opened, last = [], [], (NONE, 0)
    last_tasks = [0] * 16
    for tag, low in zip(tags, time_low):
        type, arg, how = shapes[tag >> 2]
        high = int.from_bytes(time_high.take((0, 1, 2, 7)[tag & 3]), "little")
        time = (time + (high << 8 | low)) % 2**64
        name, value = (NONE, 0), 0
        try:
            if how & 7 == 1:
                name = last
            elif how & 7 == 2:
                last = name = opened.pop()
            elif how & 7 == 3:
                low, high = next(listed)
                last = name = names[high << 8 | low]
            elif how & 7 == 4:
                kind = (rest.uleb() - 1) % 2**32
                n = rest.uleb()
                task = (last_tasks[kind % 16] + ((n >> 1) ^ -(n & 1))) % 2**64
                last_tasks[kind % 16] = task
                last = name = (kind, task)
                names.append(name)
            if how & 8:
                if len(opened) == 64:
                    raise Damaged("too many open names")
                opened.append(name)
            if how & 16:
                value = rest.uleb()
        except (IndexError, Damaged):
            damage()
            return
        yield Event(time, thread, type, arg, *name, value)


class Moment:
    """All MOMENT chunks of one process and time."""

    def __init__(self):
        self.head, self.tasks, self.threads, self.notes = {}, [], [], []

    def add(self, records):
        self.strings, self.kinds = [], []
        bad = None
        while records:
            type = records.uleb()
            fields = Bytes(records.take(records.uleb()))
            try:
                if type in MOMENT_RECORDS:
                    self.read_record(*MOMENT_RECORDS[type], fields)
            except (Damaged, IndexError) as damage:
                bad = damage
                if type in (2, 3):
                    break
        if bad:
            raise Damaged("a moment")

    def read_fields(self, form, fields):
        record = {}
        for field in form.split():
            key, _, text = field.partition(":")
            record[key] = fields.uleb()
            if text:
                record[key] = ([None] + self.strings)[record[key]]
        return record

    def read_record(self, name, form, fields):
        if name == "string":
            self.strings.append(fields.data.decode(errors="replace").replace("\0", "?"))
            return
        record = self.read_fields(form, fields)
        if name == "head":
            self.head = record
        elif name == "kind":
            self.kinds.append(record)
        elif name == "note":
            self.notes.append(record["note"])
        elif name == "thread":
            record["frames"] = [self.read_fields(FRAME, fields) for _ in range(fields.uleb())]
            record["call_arg"] = fields.uleb() if fields else 0
            self.threads.append(record)
        else:
            record["kind"] = self.kinds[record["kind"]]
            record["tree"] = self.read_node(fields, 0) if fields else None
            self.tasks.append(record)

    def read_node(self, fields, depth):
        if depth == 512:
            raise Damaged("a tree is too deep")
        own = Bytes(fields.take(fields.uleb()))
        node = self.read_fields(NODE, own)
        node["holds"] = [own.uleb() for _ in range(node["n_holds"])]
        node["held"] = [self.read_fields(HELD, own) for _ in range(own.uleb() if own else 0)]
        node["children"] = [self.read_node(fields, depth + 1) for _ in range(node["n_children"])]
        return node


class Trace:
    def __init__(self, path):
        self.file = path.read_bytes()
        self.tables = {name: {} for name, _, _ in RECORDS.values()}
        self.thread_names = {}  # index -> all names that it had
        self.by_source = {}     # index of a thread record -> its events
        self.moments = {}       # (index of a process, when) -> Moment
        self.n_damaged = 0
        self.n_expected = None
        self.cut = True
        try:
            at = self.read_header()
            while self.cut:
                at = self.read_chunk(at)
        except Cut:
            pass

    def __getattr__(self, name):
        return self.tables[name]

    def damaged(self):
        self.n_damaged += 1

    def read_header(self):
        if len(self.file) < 64 or self.file[:8] != b"\x89PLX\r\n\x1a\n":
            raise Refused("no pollux trace")
        magic, major, self.minor, size, needed, _, tool, _, checksum = struct.unpack("<8sHHIQQ24sII", self.file[:64])
        if checksum != crc32c(self.file[:60]) or not 64 <= size <= 4096:
            raise Refused("a damaged header")
        if major != 1 or needed:
            raise Refused("another version")
        self.tool = tool.rstrip(b"\0").decode()
        return size

    def read_chunk(self, at):
        if len(self.file) - at < 16:
            raise Cut
        type, flags, size, payload_checksum, checksum = struct.unpack_from("<HHIII", self.file, at)
        if checksum != crc32c(self.file[at:at + 12]) or size > MAX_PAYLOAD or size > len(self.file) - at - 16:
            raise Cut
        end = at + 16 + size
        payload = self.file[at + 16:end]
        if payload_checksum != crc32c(payload):
            self.damaged()
        elif not flags:
            try:
                self.read_payload(type, payload, end)
            except Damaged:
                self.damaged()
        return end

    def read_payload(self, type, payload, end):
        if type == META:
            self.read_meta(Bytes(payload), end // 3)
        elif type == EVENTS:
            for event in read_events(payload, self.damaged):
                self.by_source.setdefault(event.source, []).append(event)
        elif type == MOMENT:
            self.read_moment(Bytes(payload))
        elif type == END:
            self.cut = False
            if len(payload) < 8:
                raise Damaged("END")
            self.n_expected, = struct.unpack_from("<Q", payload)
        elif type == ROUND and len(payload) < 16:
            raise Damaged("ROUND")

    def read_moment(self, payload):
        process, when, size = payload.uleb(32), payload.uleb(), payload.uleb()
        stored = payload.take(len(payload.data) - payload.at)
        if when not in WHEN:
            raise Damaged("a moment of another time")
        moment = self.moments.setdefault((process, WHEN[when]), Moment())
        if size > MAX_PAYLOAD or len(stored) > size:
            raise Damaged("the size of a moment")
        moment.add(Bytes(stored if len(stored) == size else decompress(stored, size)))

    def read_meta(self, payload, max_index):
        bad = None
        while payload:
            type = payload.uleb()
            fields = Bytes(payload.take(payload.uleb()))
            try:
                if type in RECORDS:
                    self.read_record(type, fields, max_index)
            except Damaged as damage:
                bad = damage
        if bad:
            raise bad

    def read_record(self, type, fields, max_index):
        name, n_old, form = RECORDS[type]
        record = {}
        for i, field in enumerate(form.split()):
            key, bits = field.split(":")
            missing = i >= n_old and not fields
            if bits == "s":
                record[key] = "" if missing else fields.string()
            else:
                record[key] = 0 if missing else fields.uleb(int(bits))
        if name == "kind":
            n_sites = fields.uleb()
            if n_sites > MAX_SITES:
                raise Damaged("too many sites")
            record["sites"] = [(fields.uleb(), fields.string()) for _ in range(n_sites)]
            record["flags"] = fields.uleb(32) if fields else 0
        index = record.get("index", 0)
        if index > min(MAX_INDEX, max_index):
            raise Damaged("an index is too large")
        if name == "thread" and record["stream_of"] > index or name == "stack" and record["parent"] > index \
                or name == "place" and record["outer"] > index:
            raise Damaged("a reference forward")
        if name == "thread name":
            self.thread_names.setdefault(record["thread"], []).append(record["name"])
        elif name == "cost":
            self.tables[name][0] = record
        else:
            if name == "thread":
                self.thread_names.setdefault(index, []).append(record["name"])
            self.tables[name].setdefault(index, record)

    def chain(self, index):
        """The places from this one out to the task's."""
        while index in self.place:
            yield self.place[index]
            index = self.place[index]["outer"] - 1

    def own_place(self, index):
        """The innermost of them in the program's own code, else the innermost one."""
        own = (place for place in self.chain(index) if place["flags"] & PLACE_OWN)
        return next(own, self.place[index])

    def thread_of(self, source):
        """Index of the thread that a thread record is of."""
        stream_of = self.thread.get(source, {}).get("stream_of", 0)
        return stream_of - 1 if stream_of else source

    def events(self):
        """All events by time; of one time by source; those of one source in their order."""
        merged = []
        for source, events in self.by_source.items():
            latest = 0
            for i, event in enumerate(events):
                event.thread = self.thread_of(source)
                latest = max(latest, event.time)  # one whose time goes back follows the one before
                merged.append((latest, source, i, event))
        merged.sort(key=lambda entry: entry[:3])
        return [event for *_, event in merged]
