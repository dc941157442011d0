"""Reading a log from a store, and what to say when it is lost."""
