"""Training, whatever is trained: `trainer` is one epoch after the other, `loop` the run around them, `launch` starts,
resumes and loads runs, `method` is what a method says about itself."""
