"""Engines train cells: processes of this machine, or a Ray cluster. Both do the same work, to the same bytes."""
