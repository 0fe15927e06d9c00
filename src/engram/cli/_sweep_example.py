"""A sweep file to start from, with every kind of table; ``engram sweep --example`` prints it."""

EXAMPLE = """\
# Which network remembers ten symbols over a delay? Under two minutes on two cores: engram sweep FILE
# Names are the flags of engram train (engram train copy --model lstm --help shows them all).

seeds = 3                       # 0, 1, 2; or a list: seeds = [0, 1, 7]

[base]                          # what all runs share
task = "copy"
delay = 20
steps = 300
batch = 32
validate_every = 100
parameters = 4096               # the width is found: the widest network with at most so many parameters

[grid]                          # every combination of these
model = ["exprnn", "lstm"]
lr = [2e-3, 1e-2]

[[when]]                        # conditions, in order: set other values, or leave the run out
if = "model=lstm and lr<0.005"
skip = true

# [[list]]                      # values that belong together, each combined with the grid
# layers = 2
# clip = 0.0

# [ladder]                      # the longest delay that is solved: the next value only if the one before was
# over = "delay"
# values = [20, 50, 100]
# solved = "accuracy>0.99"
"""
