#!/usr/bin/env bash
# Installs agents that the tests run in sandboxes, as their makers publish them, into
# target/sdks/agents: Claude Code, and with --all also Codex and the Gemini CLI.
set -euo pipefail
cd "$(dirname "$0")/.."

agents=$PWD/target/sdks/agents
wanted=(@anthropic-ai/claude-code@2.1.197)
if [ "${1:-}" = --all ]; then
    wanted+=(@openai/codex@0.166.0 @google/gemini-cli@0.61.0)
fi
missing=()
for package in "${wanted[@]}"; do
    [ -d "$agents/node_modules/${package%@*}" ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    mkdir -p "$agents"
    npm install --silent --no-audit --no-fund --prefix "$agents" "${missing[@]}"
    # Its own step after an installation, which npm may have been told not to run.
    (cd "$agents/node_modules/@anthropic-ai/claude-code" && node install.cjs)
fi
