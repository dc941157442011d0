"""The promises the models check, by name.

I1 to I9 are the project's invariants (the protocol's share of them); F, P, M and R are those of
fencing, of prune, of the mirror and of rebuilds. docs/protocol.md explains each.
"""

FORWARD = "I1 forward: an acknowledged transaction stands in the log or in a valid checkpoint"
EXACT = "I2 exact: a reader sees the replay of the log up to its head, without a gap or a phantom"
VALID = "I2 valid: no transaction removes a file that is not live"
ONCE = "I3 once: no transaction stands twice"
FORK_SEEN = "I3 fork: an acknowledged transaction is in the log, or a fork is visible to all"
ONE_ACK = "I3 one: no slot is acknowledged to two transactions"
MONOTONIC = "I5 monotonic: a reader's head never goes back"
FRESH = "I5 fresh: a refresh sees at least what was committed before it began"
CHECKPOINT = "I6 checkpoint: a checkpoint of revision n is the replay up to n, and whole"
KEPT = "I9 kept: no file is deleted that a retained revision references"
EPOCH = "F1 epoch: it never decreases along the log, a guest has the head's, files their commit's"
ONE_OWNER = "F2 one owner: the owner's commits of one epoch come from one opening"
JUST = "F3 just: an owner is fenced only if another opening of its epoch or a higher one committed"
NOT_RECREATED = "P1 pruned: a pruned name is never created again"
MIRRORED = "M1 mirrored: only what was committed is in the mirror"
COPIED = "M2 copied: at most the two newest revisions lack a copy, and of a closed writer none"
READABLE = "M3 readable: what is retained can be read from the mirror alone, but for the two newest"
LOST_END = "M4 lost end: whoever opens a log that lost what was copied is told"
SOUND = "M5 sound: a log that lost nothing is not taken for one that did"
ONE_REBUILD = "R1 one rebuild: what stands in a rebuilt incarnation is of one plan"
FENCED = "R2 fenced: no opening of a sealed incarnation goes on in the next one"
