"""Runs on disk: directories, checkpoints, metrics, progress and the loop that ties them together."""
