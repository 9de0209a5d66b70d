#!/usr/bin/env bash
# Installs E2B's SDKs, which the tests point at `bulkhead serve` as they are: Python's into
# target/sdks/python, JavaScript's into target/sdks/javascript. And what a code interpreter shows
# tables and figures with, for the rooms of its tests: into target/sdks/science; and Python's usual
# HTTP clients, which the tests run in sandboxes: into target/sdks/clients. And
# schemathesis, which asks the server everything that its description allows.
set -euo pipefail
cd "$(dirname "$0")/.."

python_sdk=2.63.0 javascript_sdk=2.51.0 schemathesis=4.32.5
python_interpreter=2.11.5 javascript_interpreter=2.8.0
science=(numpy==2.3.4 pandas==2.3.3 matplotlib==3.10.7)
sdks=$PWD/target/sdks
mkdir -p "$sdks"

if ! "$sdks/python/bin/python" -c "import e2b, e2b_code_interpreter" 2>/dev/null; then
    /usr/bin/python3 -m venv "$sdks/python"
    "$sdks/python/bin/python" -m pip install --quiet --disable-pip-version-check \
        "e2b==$python_sdk" "e2b-code-interpreter==$python_interpreter"
fi
if ! [ -d "$sdks/javascript/node_modules/@e2b/code-interpreter" ]; then
    mkdir -p "$sdks/javascript"
    npm install --silent --no-audit --no-fund --prefix "$sdks/javascript" \
        "e2b@$javascript_sdk" "@e2b/code-interpreter@$javascript_interpreter"
fi
if ! "$sdks/science/bin/python" -c "import matplotlib, numpy, pandas" 2>/dev/null; then
    /usr/bin/python3 -m venv "$sdks/science"
    "$sdks/science/bin/python" -m pip install --quiet --disable-pip-version-check "${science[@]}"
fi

# The first generation, which knows a server only by its domain.
if ! "$sdks/python-old/bin/python" -c "import e2b" 2>/dev/null; then
    /usr/bin/python3 -m venv "$sdks/python-old"
    "$sdks/python-old/bin/python" -m pip install --quiet --disable-pip-version-check "e2b==1.11.1"
fi
if ! [ -d "$sdks/javascript-old/node_modules/e2b" ]; then
    mkdir -p "$sdks/javascript-old"
    npm install --silent --no-audit --no-fund --prefix "$sdks/javascript-old" "e2b@1.13.2"
fi
# The command.
if ! [ -x "$sdks/command/node_modules/.bin/e2b" ]; then
    mkdir -p "$sdks/command"
    npm install --silent --no-audit --no-fund --prefix "$sdks/command" "@e2b/cli@2.19.0"
fi
if ! "$sdks/clients/bin/python" -c "import requests, httpx, aiohttp" 2>/dev/null; then
    /usr/bin/python3 -m venv "$sdks/clients"
    "$sdks/clients/bin/pip" install --quiet --disable-pip-version-check \
        requests==2.32.5 httpx==0.28.1 aiohttp==3.13.2
fi
if ! [ -x "$sdks/schemathesis/bin/st" ]; then
    /usr/bin/python3 -m venv "$sdks/schemathesis"
    "$sdks/schemathesis/bin/python" -m pip install --quiet --disable-pip-version-check \
        "schemathesis==$schemathesis"
fi
