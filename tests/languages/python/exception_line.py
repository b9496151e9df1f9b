# An uncaught exception: the status is 1 and the traceback names the line.
def inner(values):
    return values[3]

def outer():
    return inner([1, 2, 3])

print("before")
outer()
