# Ten thousand lines on standard output, and as many on standard error.
import sys
for i in range(10000):
    print("line", i, "x" * 40)
    print("error", i, file=sys.stderr)
