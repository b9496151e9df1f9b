trap 'echo usr1' USR1
trap 'echo leaving; exit 5' EXIT
kill -USR1 $$
sleep 60 & pid=$!
until grep -q sleep "/proc/$pid/comm"; do sleep 0.02; done # until then it is a bash, which has the traps
kill -TERM "$pid"; wait "$pid"; echo "ended $?"
timeout 0.1 sleep 60; echo "timeout $?"
