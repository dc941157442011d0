"""The command line: one module per command in `commands`, over the same public calls that a
program makes.

A command's module has:

    DESCRIPTION  what it does, in a few sentences, for `--help`
    EXAMPLES     complete command lines, one a line
    configure    adds its arguments to the parser
    run          does it and returns the exit code

`command_list.COMMANDS` lists them; a module is only imported when its command is called. Results
go to stdout (`output`), progress (`progress`), warnings and errors (`errors`) to stderr. Heavy
packages are imported inside functions, so that help is there at once. Why no library does this:
docs/developing.md.
"""
