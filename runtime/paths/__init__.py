"""Which recorded path answers a call: slots, variants and paths (``dispatch.py``), and what happens past their caps."""
