#!/usr/bin/env bash
# What `cargo install --path` makes of this checkout, by what is built already: installed into a directory of its own, and
# tried by a job.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Into the suite's own directory: by default an installation of a path builds there as well.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
# By itself a package asks for fewer features of the crates below it, so these are built anew: without optimisation, as
# nothing here is so much work that it pays for itself.
plain=()
for crate in advise place policy sim topo; do
  plain+=(--config "profile.dev.package.pinfold-$crate.opt-level=0")
done
for crate in doors/cli host/daemon; do
  cargo install --quiet --path "crates/$crate" --debug --locked --offline --no-track --root "$work" "${plain[@]}"
done
scripts/try-programs.sh "$work/bin"
echo "cargo install: both programs are there, and a job ran"
