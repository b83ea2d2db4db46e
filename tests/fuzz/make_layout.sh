#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the seeds of corpus/layout: small objects with debug information, C's and Rust's coroutines,
# each with 4 KiB behind it that stand for memory. Needs gcc, rustc and objcopy.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$here/corpus/layout"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
rustc --edition 2021 --crate-type lib --crate-name app --emit obj -C debuginfo=2 -C panic=abort \
	-C opt-level=1 -C codegen-units=1 --remap-path-prefix "$here=/src" --remap-path-prefix "$work=/out" -o rust.o "$here/layout_seed.rs"
ld -shared --unresolved-symbols=ignore-all -o rust rust.o
fixtures=$here/../unit/fixtures
make() { # name, flags and source
	name=$1
	shift
	gcc -nostdlib -shared -ffile-prefix-map="$fixtures=/src" -ffile-prefix-map="$work=/out" -o "$name" "$@"
}
make co4 -Wa,-gdwarf-4 "$fixtures/coroutine.S"
make co5 -Wa,-gdwarf-5 -DV5 "$fixtures/coroutine.S"
make lay4 -g -gdwarf-4 -O1 -fPIC "$fixtures/layout.c"
make lay5 -g -gdwarf-5 -O1 -fPIC "$fixtures/layout.c"
for name in rust co4 co5 lay4 lay5; do
	objcopy --remove-section=.debug_loc --remove-section=.debug_loclists --remove-section=.eh_frame \
		--remove-section=.debug_gdb_scripts --remove-section=.comment $name small
	# numbers as they stand in memory: small ones, and what may be pointers into it
	{ cat small; awk 'BEGIN { for (i = 0; i < 512; i++) printf "%c%c%c%c%c%c%c%c", i % 7, \
		int(i / 3) % 5 * 16, i % 4, 0, 0, 0, 0, 0 }'; } >"$here/corpus/layout/$name"
done
