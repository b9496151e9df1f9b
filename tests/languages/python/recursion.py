# Deep recursion: the interpreter's own limit, and a thread with a large stack.
import sys, threading
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)
try:
    depth(100000)
except RecursionError as error:
    print(type(error).__name__)
sys.setrecursionlimit(60000)
threading.stack_size(128 << 20)
result = []
thread = threading.Thread(target=lambda: result.append(depth(30000)))
thread.start()
thread.join()
print(result)
