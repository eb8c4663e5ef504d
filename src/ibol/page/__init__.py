"""The live page of skills: robots that move in 3-D in a browser."""
