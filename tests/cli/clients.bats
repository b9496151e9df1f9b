#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The files for MCP clients: each is what its client reads, and starts a server that answers.

bats_require_minimum_version 1.5.0

setup() {
  clients=$BATS_TEST_DIRNAME/../../contrib/clients
  mkdir "$BATS_TEST_TMPDIR/bin"
  cp "$(realpath "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")" "$BATS_TEST_TMPDIR/bin/nsbox"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

# Starts what a client would, from {command, args} on standard input.
answers() {
  local words
  mapfile -t words < <(jq -r '.command, .args[]')
  [ "${#words[@]}" -gt 1 ]
  echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | timeout 60 "${words[@]}" | jq -e '.result == {}'
}

@test "clients: Claude Code, Claude Desktop and Cursor: mcpServers" {
  for client in claude-code claude-desktop cursor; do
    jq -e 'keys == ["mcpServers"] and (.mcpServers | keys == ["nsbox"])' "$clients/$client.json"
    jq .mcpServers.nsbox "$clients/$client.json" | answers
  done
  jq -e '.mcpServers.nsbox.type == "stdio"' "$clients/claude-code.json" "$clients/cursor.json"
}

@test "clients: VS Code: servers" {
  jq -e 'keys == ["servers"] and .servers.nsbox.type == "stdio"' "$clients/vscode.json"
  jq .servers.nsbox "$clients/vscode.json" | answers
}

@test "clients: Codex: TOML" {
  python3 -c 'import tomllib' 2>/dev/null || skip "there is no python 3.11"
  run --separate-stderr python3 -c 'import json, sys, tomllib; print(json.dumps(tomllib.load(open(sys.argv[1], "rb"))))' \
    "$clients/codex.toml"
  [ "$status" = 0 ]
  jq -e 'keys == ["mcp_servers"] and (.mcp_servers.nsbox.tool_timeout_sec > 300)' <<<"$output"
  jq .mcp_servers.nsbox <<<"$output" | answers
}

@test "clients: the table has each file" {
  for file in "$clients"/*; do
    [ "${file##*/}" = README.md ] || grep -qF "\`${file##*/}\`" "$clients/README.md"
  done
}
