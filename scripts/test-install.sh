#!/usr/bin/env bash
# What `cargo install --path` makes of this checkout, by what is built already: installed into a directory of its own, and
# tried by a job.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Into the suite's own directory: by default an installation of a path builds there as well.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
for crate in cli daemon; do
  cargo install --quiet --path "crates/$crate" --debug --locked --offline --no-track --root "$work"
done
scripts/try-programs.sh "$work/bin"
echo "cargo install: both programs are there, and a job ran"
