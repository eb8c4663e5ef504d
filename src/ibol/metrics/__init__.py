"""Measures of skills as pure functions on plain arrays: anybody's skills, not only ours."""
