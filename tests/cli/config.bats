#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The configuration of `nsbox run` and `nsbox mcp`: which file is read, what goes over what, and what is refused.

bats_require_minimum_version 1.5.0

setup() {
  nsbox=${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}
  # A place that an ordinary user can reach, for the tests that root runs as one.
  place=$(mktemp -d /tmp/nsbox-config.XXXXXX)
  chmod 755 "$place"
  cp "$nsbox" "$place/nsbox"
  cp -R "$BATS_TEST_DIRNAME/../../languages" "$place/languages"
  nsbox=$place/nsbox
  export XDG_CONFIG_HOME=$place/home HOME=$place/home
  mkdir -p "$place/home/nsbox"
  file=$place/home/nsbox/nsbox.conf
}

teardown() {
  rm -rf "$place"
}

# Runs as an ordinary user, whoever runs the tests.
ordinary() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid 65534 --regid 65534 --clear-groups env -C / "$@"
  else
    "$@"
  fi
}

configure() { # $1: the user's file
  printf '%s\n' "$1" >"$file"
  chmod 644 "$file"
}

# What a run would be: a jq expression on nsbox run --print-spec with the arguments that follow.
spec() {
  local expression=$1
  shift
  "$nsbox" run --print-spec "$@" true | jq -c "$expression"
}

# Refused with exactly this line, and nothing run.
refused() { # $1: the line without «nsbox: »
  run --separate-stderr "$nsbox" run echo ran
  [ "$status" = 125 ]
  [ -z "$output" ]
  [ "$stderr" = "nsbox: $1" ] || { echo "$stderr"; return 1; }
}

# What nsbox mcp, with the options that follow, answers to request $1 (method and params, as JSON).
ask() {
  local request=$1 answers=$BATS_TEST_TMPDIR/answers
  shift
  : >"$answers"
  {
    printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}' \
      '{"jsonrpc":"2.0","method":"notifications/initialized"}' \
      "$(jq -c '{jsonrpc: "2.0", id: 2} + .' <<<"$request")"
    for _ in $(seq 200); do
      ! grep -q '"id":2' "$answers" || break
      sleep 0.1
    done
  } | "$nsbox" mcp "$@" >"$answers"
  jq -c 'select(.id == 2)' "$answers"
}

call() { # $1: arguments of execute_code
  local arguments=$1
  shift
  ask "{\"method\": \"tools/call\", \"params\": {\"name\": \"execute_code\", \"arguments\": $arguments}}" "$@" |
    jq -c .result
}

@test "config: none, and nothing differs" {
  [ "$(spec '.limits.memory_bytes, .network, .seccomp' | xargs)" = "536870912 none default" ]
}

@test "config: the user's file holds, and options go over it" {
  configure '{"limits": {"memory": "64m", "pids": 20, "timeout": 7, "cpus": 0.5, "disk": "1m", "open_files": 99,
    "file_size": "2m", "output": "3k"}, "network": "host", "seccomp": "unconfined", "require_cgroup": true}'
  [ "$(spec '[.limits | .memory_bytes, .pids, .cpu_millis, .disk_bytes, .open_files, .file_size_bytes, .output_bytes]')" = \
    "[67108864,20,500,1048576,99,2097152,3072]" ]
  [ "$(spec '[.network, .seccomp, .require_cgroup, .execs[0].timeout_ms]')" = '["host","unconfined",true,7000]' ]
  [ "$(spec '[.limits.memory_bytes, .limits.pids, .network, .seccomp, .execs[0].timeout_ms]' \
    -m 32m --network none --timeout none --seccomp default)" = '[33554432,20,"none","default",0]' ]
}

@test "config: a limit of the file is enforced and named" {
  configure '{"limits": {"timeout": "300ms"}}'
  run --separate-stderr "$nsbox" run sleep 20
  [ "$status" = 124 ]
  [[ $stderr = *"300 ms"* ]]
}

@test "config: variables go over a language's, under --env-file and --env" {
  configure '{"env": {"A": "file", "B": "file", "C": "file", "LANG": "C"}}'
  printf 'B=env-file\nC=env-file\n' >"$place/env"
  run "$nsbox" run --env-file "$place/env" -e C=option --lang bash -c 'echo $A $B $C $LANG'
  [ "$output" = "file env-file option C" ]
}

@test "config: the user's file goes over the system's, key by key" {
  local system folder
  system=$(grep -aoE '/[a-zA-Z0-9/._-]*/nsbox/nsbox\.conf' "$nsbox" | grep -vm1 '\.config')
  folder=${system%/nsbox/nsbox.conf}
  [ -d "$folder" ] || skip "$folder is not there"
  configure '{"limits": {"pids": 8}, "env": {"B": "user"}}'
  # In a mount namespace: nothing of the host is touched.
  run ordinary unshare --user --map-root-user --mount sh -ec "
    mount -t tmpfs none '$folder'
    mkdir '$folder/nsbox'
    echo '{\"limits\": {\"pids\": 7, \"memory\": \"64m\"}, \"env\": {\"A\": \"system\", \"B\": \"system\"}}' >'$system'
    XDG_CONFIG_HOME=/nonexistent '$nsbox' run --print-spec true
    mkdir '$folder/user' '$folder/user/nsbox'
    cp '$file' '$folder/user/nsbox'
    XDG_CONFIG_HOME='$folder/user' '$nsbox' run --print-spec true
    XDG_CONFIG_HOME='$folder/user' '$nsbox' run --print-spec --config '$folder/user/nsbox/nsbox.conf' true
    XDG_CONFIG_HOME='$folder/user' '$nsbox' run --print-spec --no-config true"
  [ "$status" = 0 ] || { echo "$output"; return 1; }
  [ "$(jq -c '[.limits.pids, .limits.memory_bytes, [.execs[0].env[] | select(test("^[AB]="))]]' <<<"$output" | xargs)" = \
    "[7,67108864,[A=system,B=system]] [8,67108864,[A=system,B=user]] [8,536870912,[B=user]] [256,536870912,[]]" ]
}

@test "config: --config and --no-config" {
  configure '{"limits": {"pids": 8, "memory": "64m"}}'
  echo '{"limits": {"pids": 9}}' >"$place/other"
  chmod 644 "$place/other"
  [ "$(spec '[.limits.pids, .limits.memory_bytes]' --config "$place/other")" = "[9,536870912]" ]
  [ "$(spec '[.limits.pids, .limits.memory_bytes]' --no-config)" = "[256,536870912]" ]
  run --separate-stderr "$nsbox" run --no-config --config "$place/other" true
  [ "$status" = 125 ]
  [ "$stderr" = "nsbox: --config and --no-config contradict each other" ]
  run --separate-stderr "$nsbox" run --config "$place/absent" true
  [ "$status" = 125 ]
  [ "$stderr" = "nsbox: reading the configuration $place/absent: No such file or directory" ]
}

@test "config: what follows the command is the command's" {
  configure '{"limits": {"pids": 8}}'
  run "$nsbox" run echo --no-config --config x
  [ "$output" = "--no-config --config x" ]
}

@test "config: a mistake is one line with file and place, and 125" {
  configure '{"limits": {
"memory": "1g",}}'
  refused "$file:2: string or '}' expected near '}'"
  configure '{"limits": {"memory": "12 parsecs"}}'
  refused "$file: limits.memory: \"12 parsecs\" is not a size; write it as 512m or 1g"
  configure '{"seccomp": "~/x.json"}'
  refused "$file: seccomp: \"~/x.json\": no shell puts a home in place of the ~; write $HOME/x.json"
  configure 'memory = 64m'
  run "$nsbox" run true
  [ "$status" = 125 ]
  [[ $output = "nsbox: $file:1: "*"the file is one JSON object, such as {"* ]]
  configure '{"netwrk": "none"}'
  refused "$file: \"netwrk\": unknown key; here there are limits, network, seccomp, cgroup, require_cgroup, image_policy, packages, snapshots, mcp, env, registries"
  run "$nsbox" run --json true
  [ "$status" = 125 ]
  [ "$(jq -r .ended_by <<<"$output")" = setup ]
  [[ $(jq -r .error.text <<<"$output") = "$file: "* ]]
  run "$nsbox" mcp </dev/null
  [ "$status" = 125 ]
  [[ $output = "nsbox: $file: "* ]]
}

@test "config: a broken file does not hide the help" {
  configure '{'
  run "$nsbox" run --help
  [ "$status" = 0 ]
  run "$nsbox" mcp --help
  [ "$status" = 0 ]
  run "$nsbox" run --no-config echo ran
  [ "$output" = ran ]
}

@test "config: a file that others can write to, or that is another user's, is refused" {
  configure '{}'
  chmod 664 "$file"
  refused "$file: others can write to it, and so weaken the sandbox; run chmod go-w on it"
  chmod 600 "$file"
  run "$nsbox" run echo ran
  [ "$output" = ran ]
  [ "$(id -u)" = 0 ] || return 0
  chown 4711 "$file"
  refused "$file: belongs to user 4711, who could weaken the sandbox with it; only root's and your own files are read (--no-config reads none)"
}

@test "config: what cannot be read is an error" {
  configure '{}'
  if [ "$(id -u)" = 0 ]; then
    chmod 600 "$file"
  else
    chmod 000 "$file"
  fi
  run ordinary "$nsbox" run echo ran
  [ "$status" = 125 ]
  [ "$output" = "nsbox: reading the configuration $file: Permission denied" ]
  rm "$file"
  mkfifo "$file"
  refused "$file: not a regular file"
}

@test "config: a home that the caller may not enter is somebody else's" {
  configure '{"limits": {"pids": 8}}'
  chmod 000 "$place/home/nsbox"
  run ordinary "$nsbox" run echo ran
  chmod 700 "$place/home/nsbox"
  [ "$output" = ran ]
}

@test "config: the command inside cannot see it" {
  configure '{}'
  run "$nsbox" run cat "$file"
  [ "$status" = 1 ]
  [[ $output = *"No such file"* ]]
}

@test "config: where there is none, two calls of open that fail" {
  local calls
  command -v strace >/dev/null || skip "strace is not installed"
  calls=$(strace -e trace=file "$nsbox" run --print-spec true 2>&1 >/dev/null | grep 'nsbox\.conf') || true
  [ "$(wc -l <<<"$calls")" = 2 ] || { echo "$calls"; return 1; }
  [ "$(grep -c '^open.*ENOENT' <<<"$calls")" = 2 ]
}

@test "config: ceilings of nsbox mcp, and options over them" {
  configure '{"limits": {"memory": "8g", "pids": 33, "disk": "5m"}, "mcp": {"max_memory": "100m", "max_timeout": "3s"}}'
  local tool
  tool=$(ask '{"method": "tools/list"}' | jq -r '.result.tools[0]')
  [[ $(jq -r .description <<<"$tool") = *"100 MiB of memory and 3 s unless given, 5 MiB of files, 33 processes"* ]]
  [[ $(jq -r .inputSchema.properties.memory_limit.description <<<"$tool") = *"at most 100 MiB; 100 MiB if not given"* ]]
  tool=$(ask '{"method": "tools/list"}' --max-memory 200m --timeout 2s | jq -r '.result.tools[0]')
  [[ $(jq -r .description <<<"$tool") = *"200 MiB of memory and 2 s unless given"* ]]
  tool=$(ask '{"method": "tools/list"}' --no-config | jq -r '.result.tools[0]')
  [[ $(jq -r .description <<<"$tool") = *"512 MiB of memory and 30 s unless given, 256 MiB of files, 256 processes"* ]]
}

@test "config: a default above its ceiling" {
  configure '{"mcp": {"memory": "1g", "max_memory": "512m"}}'
  run "$nsbox" mcp </dev/null
  [ "$status" = 125 ]
  [ "${lines[0]}" = "nsbox: mcp.memory is above mcp.max_memory" ]
  run "$nsbox" mcp --memory 600m </dev/null
  [ "${lines[0]}" = "nsbox: --memory is above mcp.max_memory" ]
  configure '{"mcp": {"timeout": "2m"}}'
  run "$nsbox" mcp --max-timeout 1m </dev/null
  [ "$status" = 0 ]
}

@test "config: calls have the file's limits and variables, but not its network" {
  configure '{"limits": {"pids": 33}, "network": "host", "env": {"A": "file", "B": "file"}}'
  local result
  result=$(call '{"language": "bash", "code": "echo $A $B; cat /proc/net/dev", "env": {"B": "call"}}')
  [[ $(jq -r .structuredContent.stdout <<<"$result") = "file call"* ]] || { echo "$result"; return 1; }
  [ "$(jq -r .structuredContent.stdout <<<"$result" | grep -c ':')" = 1 ]
  [ "$(jq -r .structuredContent.limits.pids.value <<<"$result")" = 33 ]
}

@test "config: calls have the file's filter" {
  local result
  # Everything is let through but what makes a folder.
  cat >"$place/profile.json" <<'END'
{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}
END
  chmod 644 "$place/profile.json"
  configure "{\"seccomp\": \"$place/profile.json\"}"
  result=$(call '{"language": "bash", "code": "mkdir folder || echo refused"}')
  [[ $(jq -r .structuredContent.stdout <<<"$result") = refused* ]] || { echo "$result"; return 1; }
  run "$nsbox" run mkdir folder
  [ "$status" = 1 ]
  configure '{"seccomp": "/nonexistent.json"}'
  result=$(call '{"language": "bash", "code": "true"}')
  [ "$(jq -r .isError <<<"$result")" = true ]
  [[ $(jq -r '.content[0].text' <<<"$result") = *"/nonexistent.json"* ]]
}

@test "config: mandoc has nothing to say against nsbox.conf(5)" {
  command -v mandoc >/dev/null || skip "mandoc is not installed"
  # The pages that it refers to need not be installed here.
  run bash -c "mandoc -T lint '$BATS_TEST_DIRNAME/../../man/nsbox.conf.5' 2>/dev/null | grep -v 'referenced manual not found'"
  [ -z "$output" ]
}
