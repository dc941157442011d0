"""What the objects of one log mean together: its listing, states, checkpoints and rules. Pure."""
