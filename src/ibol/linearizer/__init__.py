"""Phase 1: the linearizer, a goal-conditioned policy that moves the state in any asked direction.

`policy` is what it is, `env` the environment it makes, `reward` and `training` how it is learned, `evaluation` how good
it is; `bundled` holds the trained ones that ship with ibol.
"""
