"""Networks and distributions. All that compiles anything imports from here."""

from ibol import cache

cache.enable()
