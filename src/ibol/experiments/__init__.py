"""Experiments as data: many runs, the engines that train them, the figures and claims that they are for, one page.

DIR/runs/NAME/          a run directory like any other; the end of its name is a digest of all that was set
DIR/runs/NAME.safetensors   an imitation set, which is made of several runs
DIR/ENTRY/              figures and scores.json of an entry
DIR/claims.json         what the results say of the paper's claims
DIR/costs.json          what each kind of run took
DIR/index.html          the page about all of it
DIR/leases/, DIR/failures/   who trains what at this moment, and what went wrong the last time
"""
