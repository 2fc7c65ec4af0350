#!/usr/bin/env bash
# What CI runs: the tests of the handlers, the host program over shared memory, and on a machine of QEMU.
# HAMR=PATH: a checkout of hamr other than the one in Cargo.toml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
if [ -n "${HAMR:-}" ]; then
    sed -i -E "s#path = \"[^\"]*/(host|comm|device-fw|linker)\"#path = \"$HAMR/\\1\"#" Cargo.toml
fi
cargo test
cargo run --quiet
cargo run --quiet -- qemu:x86_64
