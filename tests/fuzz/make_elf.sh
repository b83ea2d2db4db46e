#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the seeds of corpus/elf: the smallest executables that look to the finder like a program with
# Tokio, with and without symbols, PIE and not. Needs gcc and strip.
set -eu
cd "$(dirname "$0")/corpus/elf"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/tokio.s" <<'END'
	.macro function name
	.balign 16
	.type \name, @function
\name:	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.size \name, . - \name
	.endm
	.text
	function _ZN5tokio7runtime4task3raw4poll17h0123456789abcdefE
	function _ZN5tokio7runtime4task3raw8schedule17h0123456789abcdefE
	function _ZN5tokio7runtime4task3raw7dealloc17h0123456789abcdefE
	function _ZN5tokio7runtime4task3raw15try_read_output17h0123456789abcdefE
	function _ZN5tokio7runtime4task3raw21drop_join_handle_slow17h0123456789abcdefE
	function _ZN5tokio7runtime4task3raw17drop_abort_handle17h0123456789abcdefE
	function _ZN5tokio7runtime4task3raw8shutdown17h0123456789abcdefE
	function _ZN5tokio7runtime4task5waker11clone_waker17h0123456789abcdefE
	function _ZN5tokio7runtime4task5waker11wake_by_val17h0123456789abcdefE
	function _ZN5tokio7runtime4task5waker11wake_by_ref17h0123456789abcdefE
	function _ZN5tokio7runtime4task5waker10drop_waker17h0123456789abcdefE
	.globl _start
	.type _start, @function
_start:	.cfi_startproc
	lea vtable(%rip), %rax
	mov %rax, 8(%rsp)
	lea waker(%rip), %rdx
	mov $60, %eax
	syscall
	.cfi_endproc
	.size _start, . - _start
	.section .rodata
	.ascii "/registry/src/index.crates.io-0/tokio-1.38.0/src/runtime/task/core.rs"
	.section .data.rel.ro, "aw"
	.balign 8
	.type vtable, @object
vtable:	.quad _ZN5tokio7runtime4task3raw4poll17h0123456789abcdefE
	.quad _ZN5tokio7runtime4task3raw8schedule17h0123456789abcdefE
	.quad _ZN5tokio7runtime4task3raw7dealloc17h0123456789abcdefE
	.quad _ZN5tokio7runtime4task3raw15try_read_output17h0123456789abcdefE
	.quad _ZN5tokio7runtime4task3raw21drop_join_handle_slow17h0123456789abcdefE
	.quad _ZN5tokio7runtime4task3raw17drop_abort_handle17h0123456789abcdefE
	.quad _ZN5tokio7runtime4task3raw8shutdown17h0123456789abcdefE
	.quad 96, 32, 40
	.size vtable, . - vtable
waker:	.quad _ZN5tokio7runtime4task5waker11clone_waker17h0123456789abcdefE
	.quad _ZN5tokio7runtime4task5waker11wake_by_val17h0123456789abcdefE
	.quad _ZN5tokio7runtime4task5waker11wake_by_ref17h0123456789abcdefE
	.quad _ZN5tokio7runtime4task5waker10drop_waker17h0123456789abcdefE
END
flags='-nostdlib -Wl,--build-id=none -Wl,-z,max-page-size=4096 -Wl,-z,noseparate-code -Wl,-z,norelro'
gcc $flags -static-pie -o tokio-pie "$work/tokio.s"
gcc $flags -static -no-pie -o tokio-nonpie "$work/tokio.s"
strip -o tokio-pie-stripped tokio-pie
strip -o tokio-nonpie-stripped tokio-nonpie
gcc $flags -static-pie -Wl,-z,pack-relative-relocs -o tokio-relr "$work/tokio.s"
objcopy --strip-section-headers tokio-pie tokio-no-sections 2>/dev/null || rm -f tokio-no-sections
printf '\177ELF' >only-magic
head -c 64 tokio-pie >only-header
head -c 700 tokio-pie >./cut
chmod a-x ./*
