import ctypes, errno, os, signal, stat, sys

libc = ctypes.CDLL(None, use_errno=True)
args = sys.argv[1:]


def broken(how):
    """The wall did not hold."""
    print("broken", " ".join(str(how).split()), flush=True)
    os._exit(0)


def held():
    """Every way was tried and led nowhere."""
    print("held", flush=True)
    os._exit(0)


def say(word):
    print(word, flush=True)


def call(number, *arguments):
    """A bare system call: its answer, or its error as a negative number."""
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return -ctypes.get_errno() if answer == -1 else answer


def works(act, *arguments):
    """Whether the system lets `act` happen."""
    try:
        act(*arguments)
    except (OSError, ValueError):
        return False
    return True


def in_child(act):
    """The exit code of `act` in a process of its own, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            code = act() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def opened(path, flags):
    """Opens and closes; changes nothing."""
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
