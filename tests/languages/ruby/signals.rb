seen = false
Signal.trap('USR1') { puts 'usr1'; seen = true }
Process.kill('USR1', Process.pid)
sleep 0.01 until seen
$stdout.flush
Process.kill('TERM', Process.pid)
sleep 10
