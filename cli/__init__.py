"""The command line, over the same public calls that a program makes.

A command is a `command_list.Command` in a module of `commands`: its description, examples,
arguments and function. `command_list.COMMANDS` lists them; a module is only imported when its
command is called. Results go to stdout (`output`), errors, warnings and progress to stderr
(`errors`). Heavy packages are imported inside functions, so that help starts at once. Why no
library does this: docs/developing.md.
"""
