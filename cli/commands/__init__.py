"""One module a command; `command_list` lists them."""
