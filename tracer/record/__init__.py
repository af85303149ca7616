"""Recording of operations. ``recorder.py`` is the first file to read: a builder that also knows the user's line, the
real inputs, and the guards of control flow. ``array.py`` has the traced array, which the user's function sees in place
of its arguments and which answers NumPy; its contents lie in buffers that can be written into through views
(``buffers.py``). ``autocast.py`` casts operands of products.
"""
