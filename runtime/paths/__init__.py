"""Which recorded path answers a call: slots, variants and paths (``dispatcher.py``), and what happens past their
caps."""
