"""Recordings on disk: the first call of a process is answered by a plan that another process has kept.

``first_call.py`` is the first file to read: the calls of a compiled function that has no dispatcher yet. A plan's key
is text: of the function and all that it reads (``function_text.py``) and of the call (``call_text.py``).
``plan_file.py`` is its form as bytes (``encoding.py``), and how it runs. These need nothing but NumPy. ``keep.py``
makes plans of recordings, and compares a recording with the plan that has answered before it.
"""
