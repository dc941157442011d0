"""Rules by which a proxy before a server answers with faults."""

from __future__ import annotations


def first(times, fault, method=None):
    """A rule: the first requests (of a method) meet the fault, the others pass."""
    left = [times]

    def rule(request):
        if left[0] and (method is None or request.method == method):
            left[0] -= 1
            return fault
        return None

    return rule
