# SPDX-License-Identifier: MIT
# The probes through a server: a program for execute_code brings the prober as text, and runs all of them.

# (It has a parent there, which «processes» would find.)
if command -v jq >/dev/null && command -v gzip >/dev/null; then
	names=$("$probe" --list | awk -F '\t' '$1 !~ /^@/ && $1 != "processes" && $2 != "terminal" { print $1 }')
	code='tail -n +2 | base64 -d | gunzip >/workspace/probe && chmod +x /workspace/probe
for name in '${names//$'\n'/ }'; do
	output=$(/workspace/probe "$name" 2>&1 </dev/null)
	status=$?
	output=${output//[^ -~]/;}
	echo "$name $status ${output:0:100}"
done'
	gzip -c "$probe" | base64 >"$work/probe.text"
	{
		jq -nc '{jsonrpc: "2.0", id: 1, method: "initialize", params: {protocolVersion: "2025-06-18", capabilities: {}, clientInfo: {name: "escape", version: "1"}}}'
		echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
		jq -nc --arg code "$code" --rawfile text "$work/probe.text" '{jsonrpc: "2.0", id: 2, method: "tools/call",
			params: {name: "execute_code", arguments: {language: "bash", code: $code, stdin: ("\n" + $text), timeout: 240}}}'
		# The end of its input would end the run.
		for _ in {1..2500}; do
			grep -q '"id":2' "$work/answers" 2>/dev/null && break
			sleep 0.1
		done
	} | NSBOX_LANGUAGES_DIR=${NSBOX_LANGUAGES_DIR-$here/../../languages} timeout 260 "$nsbox" mcp --max-timeout 5m >"$work/answers" 2>"$work/complaints"
	output=$(jq -r 'select(.id == 2).result.structuredContent.stdout // empty' "$work/answers" 2>&1)
	for name in $names; do
		line=$(grep "^$name " <<<"$output")
		[[ $line = "$name 0 "* ]]
		report $? "execute_code: $name" "${line:-not run: $(head -c 500 "$work/answers" "$work/complaints")}"
	done
else
	echo "# jq or gzip is not installed: no probe was run through a server"
fi
