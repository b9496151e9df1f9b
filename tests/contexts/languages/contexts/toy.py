# SPDX-License-Identifier: MIT
# A driver for the tests of what is around drivers: Python without anything that makes it pleasant. A cell is executed, a
# last line that is an expression is its result, and what it puts in `raw` is written to the supervisor as it is.
import ast, os, signal, sys, time

requests, replies = os.fdopen(os.dup(0), "rb"), os.dup(3)
null = os.open("/dev/null", os.O_RDONLY)
os.dup2(null, 0)
os.close(null)
os.close(3)
running = False


def interrupt(number, frame):
	if running:
		raise KeyboardInterrupt


def say(header, *parts):
	data = b"".join([header.encode() + b"\n", *parts])
	while data:
		data = data[os.write(replies, data):]


def part(value, kind, mime, data):
	say(f"part {cell} {value} {kind} {mime} {len(data)}", data)


signal.signal(signal.SIGINT, interrupt)
state = {"request": requests.fileno(), "part": part, "say": say, "reply": replies, "beside": open(sys.argv[1]).read()}
while os.path.exists("/workspace/slow-start"):
	time.sleep(0.02)
if os.path.exists("/workspace/no-start"):
	sys.exit("it will not start")
say("ready")
while header := requests.readline():
	word, cell, length = header.split()
	cell, code, status = int(cell), requests.read(int(length)).decode(), "ok"
	state["cell"] = cell
	try:
		running = True
		tree = ast.parse(code)
		last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
		exec(compile(tree, f"<cell {cell}>", "exec"), state)
		value = eval(compile(ast.Expression(last.value), f"<cell {cell}>", "eval"), state) if last else None
		running = False
		if value is not None:
			part(state.pop("shown", 0) + 1, "result", "text/plain", repr(value).encode())
	except KeyboardInterrupt:
		status = "interrupted"
	except Exception as error:
		running, status = False, "error"
		name, message = type(error).__name__.encode(), str(error).encode()
		say(f"error {cell} 1 {len(name)} {len(message)} 5", name, message, b"trace")
	running = False
	sys.stdout.flush()
	sys.stderr.flush()
	say(f"end {cell} {status}")
