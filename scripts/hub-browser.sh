#!/usr/bin/env bash
# The hub's page in a real browser: headless Chromium, driven by Playwright, in a virtual environment of its own below the
# target directory. Usage: hub-browser.sh PROGRAMS [--only VIEW,...], the directory with pinfold-hub. Screenshots stay in
# TARGET/hub-browser.
set -euo pipefail
programs=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
own=$target/hub-browser-python

skip() { echo "hub-browser: SKIPPED, as $1"; exit 0; }
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "no Chromium is here (apt: chromium)"
python3 -c 'import ensurepip' 2>/dev/null || skip "python3 has no venv (apt: python3-venv)"
if ! "$own/bin/python" -c 'import playwright, axe_playwright_python' 2>/dev/null; then
  python3 -m venv --clear "$own"
  said=$("$own/bin/pip" install --quiet --disable-pip-version-check --timeout 10 --retries 1 playwright axe-playwright-python 2>&1) || {
    rm -rf "$own"
    skip "the package registry does not answer: $(tail -n 1 <<<"$said")"
  }
fi
exec "$own/bin/python" crates/hub/hub/tests/browser.py --hub "$programs/pinfold-hub" --chromium "$browser" --out "$target/hub-browser" "$@"
