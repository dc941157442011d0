"""What the tests of races with gc and prune share."""

from __future__ import annotations


class Interposed:
    """Runs steps before the requests of the given numbers; those due together in their order."""

    def __init__(self):
        self.steps = []  # (number of the request, step)
        self.requests = []

    def __call__(self, request, key):
        number = len(self.requests)
        self.requests.append((request, key))
        for due, step in self.steps:
            if due == number:
                step()

    def finish(self):
        for due, step in self.steps:
            if due >= len(self.requests):
                step()


def before_request(number, step):
    """A hook that takes one step before the request of this number."""
    hook = Interposed()
    hook.steps = [(number, step)]
    return hook
