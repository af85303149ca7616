"""From a recorded graph to a canonical program. ``canonical.py`` is the first file to read: the program without its
numbers, and the key (the signature) by which a kernel is found again. Before that come small rewrites
(``simplify.py``) and half precision as float32 (``half_precision.py``); ``equal_axes.py`` says which axes share a
size, ``host_device_split.py`` takes a program for a device apart.
"""
