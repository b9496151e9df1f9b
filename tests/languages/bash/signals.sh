trap 'echo usr1' USR1
trap 'echo leaving; exit 5' EXIT
kill -USR1 $$
sleep 60 & pid=$!
kill -TERM "$pid"; wait "$pid"; echo "ended $?"
timeout 0.1 sleep 60; echo "timeout $?"
