"""The log and its readers: a pure core (names, frame, codec, state, replay, ...) and the shell that
does I/O."""
