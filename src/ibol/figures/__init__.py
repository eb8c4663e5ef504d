"""Figures, one function each, drawn without a display."""
