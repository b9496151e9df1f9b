Signal.trap('USR1') { puts 'usr1' }
Process.kill('USR1', Process.pid)
sleep 0.05
$stdout.flush
Process.kill('TERM', Process.pid)
sleep 10
