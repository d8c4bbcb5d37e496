# What a step of a program says, on whatever sockets it runs.
import errno, signal, sys


def step(f):
    signal.alarm(30)
    try:
        print(f.__name__, f())
    except OSError as e:
        print(f.__name__, errno.errorcode.get(e.errno, e))
    except Exception as e:
        print(f.__name__, type(e).__name__, e)
    sys.stdout.flush()
    return f
