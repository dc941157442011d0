"""Prune and gc of one writer's log and data files; `Catalog.prune` and `Catalog.gc` do it for all.

A step is two calls: `plan_…` reads the store and says what is to be deleted and why; `execute_…`
checks that again and deletes. `source` is a catalog or a store; `ambient` and `margins` default to
the catalog's, else to the system's.
"""
