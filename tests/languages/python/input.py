# Standard input, arguments and the environment.
import os, sys
print(sys.argv[1:])
print(os.environ["GREETING"], os.environ["EMPTY"] == "")
numbers = [int(line) for line in sys.stdin if line.strip()]
print(len(numbers), sum(numbers), sys.stdin.read() == "")
