# Pipelines, their status, background jobs, coprocesses, subshells.
set -o pipefail
seq 1 1000 | grep 7 | wc -l
false | true; echo "status $?"
yes | head -n 3 | wc -l
echo "${PIPESTATUS[@]}" | wc -w
: >0; for i in 3 1 2; do (until [ -e $((i - 1)) ]; do sleep 0.02; done; echo "job $i"; : >$i) & done; wait
coproc { while read -r line; do echo "got $line"; done; }
echo hello >&"${COPROC[1]}"; read -r answer <&"${COPROC[0]}"; echo "$answer"
(exit 9); echo $?
