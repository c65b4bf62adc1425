#!/usr/bin/env bash
# Prints the cargo options for this machine: nothing, or what leaves hwloc out where its library is not there.
set -euo pipefail
if ! { command -v pkg-config >/dev/null && pkg-config --exists 'hwloc >= 2.0'; }; then
  echo "hwloc is not here: building without it, so topologies from XML files and synthetic strings are off." >&2
  echo "--no-default-features"
fi
