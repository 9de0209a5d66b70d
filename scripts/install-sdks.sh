#!/usr/bin/env bash
# Installs E2B's SDKs, which the tests point at `bulkhead serve` as they are: Python's into
# target/sdks/python, JavaScript's into target/sdks/javascript.
set -euo pipefail
cd "$(dirname "$0")/.."

python_sdk=2.63.0 javascript_sdk=2.51.0
sdks=$PWD/target/sdks
mkdir -p "$sdks"

if ! "$sdks/python/bin/python" -c "import e2b" 2>/dev/null; then
    /usr/bin/python3 -m venv "$sdks/python"
    "$sdks/python/bin/pip" install --quiet --disable-pip-version-check "e2b==$python_sdk"
fi
if ! [ -d "$sdks/javascript/node_modules/e2b" ]; then
    mkdir -p "$sdks/javascript"
    npm install --silent --no-audit --no-fund --prefix "$sdks/javascript" "e2b@$javascript_sdk"
fi
