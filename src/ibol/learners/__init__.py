"""How policies learn: roll-outs, replay, normalisers and soft actor-critic."""
