// SPDX-License-Identifier: MIT OR Apache-2.0
compile_error!("pollux itself is a C program: `./dev dist` in its repository builds it, docs/install.md says where else it is");
