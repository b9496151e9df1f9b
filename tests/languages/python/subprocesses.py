# Pipelines, exit codes, a signal, and a shell.
import signal, subprocess, sys
sort = subprocess.Popen(["sort", "-rn"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(sort.communicate("3\n10\n2\n")[0].split())
print(subprocess.run("printf 'a b\\nc\\n' | wc -w", shell=True, capture_output=True, text=True).stdout.strip())
print(subprocess.run([sys.executable, "-c", "import sys; sys.exit(7)"]).returncode)
child = subprocess.Popen(["sleep", "60"])
child.send_signal(signal.SIGTERM)
print(child.wait())
try:
    subprocess.run(["sleep", "60"], timeout=0.2)
except subprocess.TimeoutExpired:
    print("timed out")
