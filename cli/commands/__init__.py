"""The commands, those that belong together in one module; `command_list` lists them."""
