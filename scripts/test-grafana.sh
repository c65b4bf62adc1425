#!/usr/bin/env bash
# Compares the form of the dashboard for Grafana with the types that Grafana publishes, by the compiler for these. Both come
# from the registry of npm, once, into the build's own directory.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}")/grafana
types=node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen
command -v node >/dev/null || { echo "dashboard: SKIPPED, as node is not installed"; exit 0; }
if [ ! -e "$tools/$types.d.ts" ] || [ ! -e "$tools/node_modules/.bin/tsc" ]; then
  command -v npm >/dev/null || { echo "dashboard: SKIPPED, as npm is not installed"; exit 0; }
  mkdir -p "$tools"
  echo '{"private":true}' >"$tools/package.json"
  (cd "$tools" && timeout 300 npm install --silent --no-audit --no-fund --ignore-scripts @grafana/schema@13.2.3 typescript@5.9) >/dev/null 2>&1 ||
    { echo "dashboard: SKIPPED, as npm's registry is not reached"; exit 0; }
fi
check() {
  { echo "import type { Dashboard } from './$types';" && printf 'export const dashboard: Dashboard = ' && cat "$1" && echo ';'; } >"$tools/check.ts"
  (cd "$tools" && node_modules/.bin/tsc --noEmit --strict --skipLibCheck --moduleResolution bundler --module esnext --target es2022 check.ts)
}
check packaging/grafana/pinfold.json || { echo "FAILED: packaging/grafana/pinfold.json is no dashboard of Grafana's" >&2; exit 1; }
# The check can fail: a panel that has no size is none.
sed '0,/"w": [0-9]*, /s///' packaging/grafana/pinfold.json >"$tools/wrong.json"
if check "$tools/wrong.json" >/dev/null; then echo "FAILED: a dashboard with a wrong panel is taken for a right one" >&2; exit 1; fi
echo "dashboard: of the form that Grafana's own types have"
