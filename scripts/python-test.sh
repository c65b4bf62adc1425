#!/usr/bin/env bash
# Tests of the Python package, in virtual environments of their own below the target directory: types, then pytest against a
# daemon of the tests' own. Usage: python-test.sh PROGRAMS [--quick], the directory with pinfold and pinfoldd.
# The whole: a wheel with the programs, on each CPython from 3.11 on that is in PATH, or that PINFOLD_PYTHONS names, and
# the plug-ins with the engines that they are for.
# --quick: the first of them, a wheel without programs.
set -euo pipefail
programs=$(realpath "$1") mode=${2-}
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

fits() { "$1" -c 'import sys, ensurepip; assert sys.version_info >= (3, 11) and sys.implementation.name == "cpython"' 2>/dev/null; }
pythons=()
for python in ${PINFOLD_PYTHONS:-python3 python3.11 python3.12 python3.13 python3.14}; do
  fits "$python" || continue
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  case " ${pythons[*]-} " in *" $version:"*) ;; *) pythons+=("$version:$(command -v "$python")") ;; esac
  if [ "$mode" = --quick ]; then break; fi
done
[ "${#pythons[@]}" -gt 0 ] || { echo "python: SKIPPED, as no CPython 3.11 or newer with ensurepip is here (apt: python3-venv)"; exit 0; }

for entry in "${pythons[@]}"; do
  version=${entry%%:*} own=$target/python-test/${entry%%:*}
  if ! "$own/bin/python" -c 'import cloudpickle, hatchling, mypy, pytest' 2>/dev/null; then
    "${entry#*:}" -m venv --clear "$own"
    said=$("$own/bin/pip" install --quiet --disable-pip-version-check --timeout 10 --retries 1 cloudpickle hatchling mypy pytest 2>&1) || {
      rm -rf "$own"
      echo "python: SKIPPED, as the package registry does not answer: $(tail -n 1 <<<"$said")"
      exit 0
    }
  fi
  if [ "$mode" != --quick ]; then
    "$own/bin/pip" install --quiet --disable-pip-version-check submitit || echo "submitit: SKIPPED, as it cannot be had"
  fi
  wheels=$own/wheels
  rm -rf "$wheels"
  if [ "$mode" = --quick ]; then export PINFOLD_PROGRAMS=none PINFOLD_PROGRAM=$programs/pinfold; else export PINFOLD_PROGRAMS=$programs; fi
  "$own/bin/pip" wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$wheels" ./python
  "$own/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/*.whl
  echo "python $version: $(basename "$wheels"/*.whl)"
  (cd python && "$own/bin/mypy" --cache-dir "$own/mypy" && "$own/bin/python" -m pytest -p no:cacheprovider)
  if [ "$mode" = --quick ]; then break; fi
  plugin=python/snakemake-executor-plugin-pinfold
  "$own/bin/pip" install --quiet --disable-pip-version-check 'snakemake>=9' || { echo "snakemake: SKIPPED, as it cannot be had"; continue; }
  "$own/bin/pip" install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall ./$plugin
  (cd $plugin && "$own/bin/python" -m pytest -p no:cacheprovider -W ignore::DeprecationWarning)
done
