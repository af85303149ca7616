"""Random numbers: keys and bits (``keys.py``), distributions, and the default stream that needs no key."""
