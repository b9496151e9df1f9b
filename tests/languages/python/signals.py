# Handlers, alarms, and the default action of a signal that is not handled.
import os, signal, time
seen = []
signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(signal.Signals(number).name))
os.kill(os.getpid(), signal.SIGUSR1)
signal.signal(signal.SIGALRM, lambda number, frame: seen.append("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(1) if "alarm" not in seen else None
print(seen)
pid = os.fork()
if pid == 0:
    signal.pause()
os.kill(pid, signal.SIGKILL)
print(os.WTERMSIG(os.waitpid(pid, 0)[1]), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
