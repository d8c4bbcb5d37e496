"""Runs modules of Python's own test suite: each class of tests in a process of its own, and each test for so long at
most, so that one that hangs takes no other with it. Says `ok`, `failed` or `skipped` and the name of each test, and of
what failed why."""

import importlib
import os
import signal
import sys
import time
import unittest

# Seconds of a test.
LIMIT = 20


class Late(BaseException):
    pass


def late(*_):
    raise Late(f"not over in {LIMIT} s")


class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.word, self.why = "ok", ""
        signal.alarm(LIMIT)

    def stopTest(self, test):
        signal.alarm(0)
        print(self.word, test.id().removeprefix("test."), "", self.why, flush=True)
        super().stopTest(test)

    def fails(self, error):
        lines = str(error[1]).splitlines() or [""]
        self.word, self.why = "failed", f"{error[0].__name__}: {lines[0]}"

    def addFailure(self, test, error):
        self.fails(error)

    def addError(self, test, error):
        if isinstance(test, unittest.TestCase):
            self.fails(error)
        else:
            print("failed", test.id().removeprefix("test."), error[1], flush=True)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.fails(error)

    def addSkip(self, test, reason):
        self.word = "skipped"
        if not isinstance(test, unittest.TestCase):
            print("skipped", test.id(), flush=True)

    def addExpectedFailure(self, test, error):
        pass

    def addUnexpectedSuccess(self, test):
        self.word = "failed"


def classes(suite):
    """The suites of single classes."""
    for inner in suite:
        if not isinstance(inner, unittest.TestSuite):
            yield suite
            return
        yield from classes(inner)


def run(suite):
    signal.signal(signal.SIGALRM, late)
    try:
        suite.run(Result())
    except BaseException as error:
        print("failed", suite, error)


def modules(names):
    for name in names:
        package = f"test.{name}"
        module = importlib.import_module(package)
        folder = getattr(module, "__path__", None)
        if folder is None:
            yield module
        else:
            files = sorted(file[:-3] for file in os.listdir(folder[0]) if file.startswith("test_"))
            yield from modules(f"{name}.{file}" for file in files if not file.startswith("."))


for module in modules(sys.argv[1:]):
    for suite in classes(unittest.defaultTestLoader.loadTestsFromModule(module)):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            try:
                getattr(module, "setUpModule", lambda: None)()
                run(suite)
            finally:
                sys.stdout.flush()
                os._exit(0)
        ends = time.monotonic() + LIMIT * (1 + suite.countTestCases())
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > ends:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.01)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
