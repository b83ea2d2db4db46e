#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rewrites a recording of perf record, file, stream or folder, as a machine of the other byte order
would have written it (swap.py FROM TO). perf script reads both alike."""
import struct
import sys
from pathlib import Path

# Features that are kept: formats of tracepoints, build-ids, names of the host and machine, events,
# version of the folder.
KEPT = {1, 2, 3, 6, 12, 24}
FIELDS = {1: "IIQQQ", 2: "QQ", 3: "II", 4: "IIIIQ", 7: "IIIIQ", 10: "IIQQQIIQQII", 14: "", 15: "II",
          17: "QIHH", 18: "HHI", 66: "I", 68: "", 78: "QQ"}
IDENTIFIER, IP, TID, TIME, ADDR, CALLCHAIN, ID, CPU, PERIOD, STREAM, RAW = (
    1 << bit for bit in (16, 0, 1, 2, 3, 5, 6, 7, 8, 9, 10))
KNOWN = IDENTIFIER | IP | TID | TIME | ADDR | CALLCHAIN | ID | CPU | PERIOD | STREAM | RAW


class Reader:
    """Takes little-endian values, and writes them the other way round."""

    def __init__(self, data):
        self.data, self.at, self.out = data, 0, bytearray()

    def take(self, fields):
        values = struct.unpack_from("<" + fields, self.data, self.at)
        self.out += struct.pack(">" + fields, *values)
        self.at += struct.calcsize("<" + fields)
        return values

    def copy(self, size):
        self.out += self.data[self.at:self.at + size]
        self.at += size

    def left(self):
        return len(self.data) - self.at

    def rest(self):
        self.copy(self.left())
        return bytes(self.out)


def swap_attr(data):
    r = Reader(data)
    r.take("IIQQQQ")
    r.out += bytes(int(f"{b:08b}"[::-1], 2) for b in data[r.at:r.at + 8])
    r.at += 8
    for fields in ("II", "QQ", "QQ", "II", "Q", "IHH", "II", "Q", "Q"):
        if r.left() >= struct.calcsize("<" + fields):
            r.take(fields)
    return r.rest()


def swap_formats(data):
    r = Reader(data)

    def text():
        r.copy(data.index(0, r.at) + 1 - r.at)

    def sized(width):
        r.copy(r.take(width)[0])

    r.copy(10)
    text()
    r.out += b"\1"
    r.at += 1
    r.copy(1)
    r.take("I")
    for _ in range(2):
        text()
        sized("Q")
    for _ in range(r.take("I")[0]):
        sized("Q")
    for _ in range(r.take("I")[0]):
        text()
        for _ in range(r.take("I")[0]):
            sized("Q")
    sized("I")
    sized("I")
    if r.left() >= 8:
        sized("Q")
    return r.rest()


def swap_feature(feature, data):
    r = Reader(data)
    if feature == 1:
        return swap_formats(data)
    if feature == 2:
        while r.left() >= 12:
            start = r.at
            r.take("IHHI")
            r.copy(struct.unpack_from("<H", data, start + 6)[0] - 12)
    elif feature in (3, 6) and r.left():
        r.take("I")
    elif feature == 12:
        n, size = r.take("II")
        for _ in range(n):
            r.out += swap_attr(data[r.at:r.at + size])
            r.at += size
            ids, name = r.take("II")
            r.copy(name)
            r.take("Q" * ids)
    elif feature == 24:
        r.take("Q")
    return r.rest()


class Swapper:
    def __init__(self):
        self.types, self.of_id, self.formats = [], {}, {}

    def add_attr(self, attr, ids):
        self.types.append(struct.unpack_from("<Q", attr, 24)[0])
        for i in struct.unpack(f"<{len(ids) // 8}Q", ids):
            self.of_id[i] = self.types[-1]

    def read_formats(self, data):
        """How the raw data of each tracepoint are made up: [(offset, size, how many)]."""
        for part in data.split(b"name: ")[1:]:
            lines = part.decode(errors="replace").split("\n")
            if not lines[1].startswith("ID: "):
                continue
            fields = []
            for line in lines[2:]:
                if line.startswith("print fmt"):
                    break
                words = dict(w.split(":", 1) for w in line.strip().split(";\t") if ":" in w)
                if "offset" in words:
                    field, size = words["field"], int(words["size"])
                    n = int(field.split("[")[1].split("]")[0]) if "[" in field and \
                        "__data_loc" not in field and field.split("[")[1][0].isdigit() else 1
                    fields.append((int(words["offset"]), size // n, n))
            self.formats[int(lines[1][4:])] = fields

    def raw(self, data):
        out = bytearray(data)
        (kind,) = struct.unpack_from("<H", data)
        for offset, size, n in self.formats[kind]:
            for i in range(n):
                at = offset + i * size
                out[at:at + size] = data[at:at + size][::-1]
        return bytes(out)

    def sample(self, r):
        kind = self.types[0]
        if kind & IDENTIFIER:
            kind = self.of_id[struct.unpack_from("<Q", r.data, 8)[0]]
        else:
            assert set(self.types) == {kind}, "events differ"
        r.take("Q" * sum(bool(kind & bit) for bit in (IDENTIFIER, IP)))
        r.take("II" if kind & TID else "")
        r.take("Q" * sum(bool(kind & bit) for bit in (TIME, ADDR, ID, STREAM)))
        r.take("II" if kind & CPU else "")
        r.take("Q" if kind & PERIOD else "")
        assert not kind & ~KNOWN, "a sample with more in it than is known here"
        if kind & CALLCHAIN:
            r.take("Q" * r.take("Q")[0])
        if kind & RAW:
            (size,) = r.take("I")
            r.out += self.raw(r.data[r.at:r.at + size])
            r.at += size

    def trailer(self, r):
        kind = self.types[0]
        fields = ("II" if kind & TID else "") + "".join(
            "Q" for bit in (TIME, ID, STREAM) if kind & bit)
        fields += ("II" if kind & CPU else "") + ("Q" if kind & IDENTIFIER else "")
        r.copy(r.left() - struct.calcsize("<" + fields))
        r.take(fields)

    def record(self, data):
        r = Reader(data)
        kind, _, _ = r.take("IHH")
        assert kind not in (81, 83), "compressed records can't be rewritten"
        if kind == 9:
            self.sample(r)
        elif kind == 64:
            (size,) = struct.unpack_from("<I", data, 12)
            attr = data[8:8 + size]
            self.add_attr(attr, data[8 + size:])
            r.out += swap_attr(attr)
            r.at += size
            r.take("Q" * (r.left() // 8))
        elif kind == 67:
            r.take("I")
        elif kind == 80:
            (feature,) = r.take("Q")
            r.out += swap_feature(feature, data[r.at:])
            r.at = len(data)
        else:
            r.take(FIELDS[kind])
            if kind < 64:
                self.trailer(r)
        return r.rest()

    def records(self, data):
        out, at = bytearray(), 0
        while at < len(data):
            kind, _, size = struct.unpack_from("<IHH", data, at)
            if kind == 66:
                more = struct.unpack_from("<I", data, at + 8)[0]
                self.read_formats(data[at + size:at + size + more])
                out += self.record(data[at:at + size])
                out += swap_formats(data[at + size:at + size + more]).ljust(more + 7 & ~7, b"\0")
                at += size + (more + 7 & ~7)
                continue
            feature = struct.unpack_from("<Q", data, at + 8)[0] if kind == 80 else None
            # What is not known here is left out: it would be read wrong.
            if feature in KEPT if kind == 80 else kind in (9, 64, 67, 81, 83) or kind in FIELDS:
                out += self.record(data[at:at + size])
            at += size
        return bytes(out)

    def file(self, data):
        if struct.unpack_from("<Q", data, 8)[0] == 16:
            return b"2ELIFREP" + struct.pack(">Q", 16) + self.records(data[16:])
        head = struct.unpack_from("<8Q", data, 8)
        attr_size, attrs_at, attrs_size, data_at, data_size = head[1:6]
        bits, place = int.from_bytes(data[72:104], "little"), data_at + data_size
        features = {}
        for feature in range(256):
            if bits >> feature & 1:
                at, size = struct.unpack_from("<QQ", data, place)
                place += 16
                if feature in KEPT:
                    features[feature] = data[at:at + size]
        self.read_formats(features.get(1, b""))
        attrs, ids = bytearray(), bytearray()
        n = attrs_size // attr_size
        ids_at = 104 + n * attr_size
        for i in range(n):
            at = attrs_at + i * attr_size
            attr = data[at:at + attr_size - 16]
            where, size = struct.unpack_from("<QQ", data, at + attr_size - 16)
            self.add_attr(attr, data[where:where + size])
            attrs += swap_attr(attr) + struct.pack(">QQ", ids_at + len(ids), size)
            own = Reader(data[where:where + size])
            own.take("Q" * (size // 8))
            ids += own.rest()
        records = self.records(data[data_at:data_at + data_size])
        out_at = ids_at + len(ids)
        table_at = out_at + len(records)
        body_at = table_at + 16 * len(features)
        table, body = bytearray(), bytearray()
        for feature in sorted(features):
            part = swap_feature(feature, features[feature])
            table += struct.pack(">QQ", body_at + len(body), len(part))
            body += part
        kept = sum(1 << feature for feature in features)
        header = b"2ELIFREP" + struct.pack(">8Q", 104, attr_size, 104, len(attrs), out_at,
                                           len(records), 0, 0)
        header += b"".join(struct.pack(">Q", kept >> 64 * i & (1 << 64) - 1) for i in range(4))
        return header + bytes(attrs) + bytes(ids) + records + bytes(table) + bytes(body)


def swap(source, target):
    swapper = Swapper()
    if not source.is_dir():
        target.write_bytes(swapper.file(source.read_bytes()))
        return
    target.mkdir()
    (target / "data").write_bytes(swapper.file((source / "data").read_bytes()))
    for part in sorted(source.glob("data.*")):
        (target / part.name).write_bytes(swapper.records(part.read_bytes()))


if __name__ == "__main__":
    swap(Path(sys.argv[1]), Path(sys.argv[2]))
