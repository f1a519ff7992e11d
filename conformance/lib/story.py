"""What every Python story shares: named checks, one line each, and an exit code that says whether all held."""

import sys
import traceback
from contextlib import contextmanager


class Story:
    """A run of named checks. A failing one is reported and the story goes on."""

    def __init__(self, name):
        self.name, self.passed, self.failed = name, 0, 0

    @contextmanager
    def check(self, what):
        try:
            yield
        except AssertionError as wrong:
            self._fail(what, str(wrong) or traceback.format_exc(limit=-1).splitlines()[-2].strip())
        except Exception as wrong:  # a peer library's own error is a failed check, not a broken story
            self._fail(what, f"{type(wrong).__name__}: {str(wrong)[:300]}")
        else:
            self.passed += 1
            print(f"  ok    {what}", flush=True)

    def _fail(self, what, why):
        self.failed += 1
        print(f"  FAIL  {what}: {why}", flush=True)

    def end(self):
        print(f"{self.name}: {self.passed} checks passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)


def refused(call, *errors):
    """Assert that `call` raises one of `errors`, and return what it raised."""
    try:
        call()
    except errors as wrong:
        return wrong
    raise AssertionError("was accepted")
