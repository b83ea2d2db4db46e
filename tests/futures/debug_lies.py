# SPDX-License-Identifier: MIT OR Apache-2.0
"""Changes where debug information says that members lie: in the file, in place, so that build-id,
size and all else stay.

A DIE of a member begins with its abbreviation's number and the offset of its name, so it is found by
the name; that these bytes are one is seen by the abbreviation (DWARF 4 and 5, 64-bit ELF).
"""
import struct

MEMBER, NAME, LOCATION = 0x0D, 0x03, 0x38
STRP, IMPLICIT = 0x0E, 0x21
FIXED = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x13: 4, 0x0C: 1, 0x19: 0, 0x0E: 4, 0x17: 4, 0x1F: 4}


def uleb(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def sections(data):
    """{name: (offset, size)}"""
    start = struct.unpack_from("<Q", data, 40)[0]
    size, n, names = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(n)]
    strings = heads[names][4]
    return {
        bytes(data[strings + h[0] : data.index(b"\0", strings + h[0])]).decode(): (h[4], h[5])
        for h in heads
    }


def members_by_number(data, at):
    """{number: [(attribute, form)]} of the abbreviations of members that begin with a name."""
    found = {}
    while True:
        number, at = uleb(data, at)
        if not number:
            return found
        tag, at = uleb(data, at)
        at += 1
        attributes = []
        while True:
            name, at = uleb(data, at)
            form, at = uleb(data, at)
            if form == IMPLICIT:
                _, at = uleb(data, at)
            if not name and not form:
                break
            attributes.append((name, form))
        if tag == MEMBER and attributes and attributes[0] == (NAME, STRP):
            found[number] = attributes


def location(data, at, attributes):
    """(offset in the file, bytes) of the member's place, whose first attribute is at `at`."""
    for name, form in attributes:
        if name == LOCATION and form in FIXED:
            return at, FIXED[form]
        if form == 0x0F:
            _, at = uleb(data, at)
        elif form in FIXED:
            at += FIXED[form]
        else:
            return None
    return None


class Lies:
    """The members of one name: `places` are (offset in the file, bytes, value)."""

    def __init__(self, path, name):
        self.data = bytearray(path.read_bytes())
        found = sections(self.data)
        info, info_size = found[".debug_info"]
        strings, strings_size = found[".debug_str"]
        end = strings + strings_size
        key = struct.pack("<I", self.data.index(b"\0" + name + b"\0", strings, end) + 1 - strings)
        self.places = []
        at = info
        while at < info + info_size:
            length, version = struct.unpack_from("<IH", self.data, at)
            abbrev = struct.unpack_from("<I", self.data, at + (8 if version >= 5 else 6))[0]
            self.add_unit(at, at + 4 + length, key, found[".debug_abbrev"][0] + abbrev)
            at += 4 + length

    def add_unit(self, at, end, key, abbrev):
        members = None
        while (at := self.data.find(key, at + 1, end)) > 0:
            members = members or members_by_number(self.data, abbrev)
            for start in (at - 1, at - 2):
                number, behind = uleb(self.data, start)
                place = location(self.data, at, members[number]) if number in members else None
                if behind == at and place:
                    value = int.from_bytes(self.data[place[0] : place[0] + place[1]], "little")
                    self.places.append((*place, value))
                    break

    def write(self, path, changed):
        """`changed(value, bytes)`: what each place is to be; it need not fit."""
        data = bytearray(self.data)
        for at, size, value in self.places:
            new = changed(value, size) & ((1 << 8 * size) - 1)
            data[at : at + size] = new.to_bytes(size, "little")
        path.write_bytes(data)
        path.chmod(0o755)
        return path
