"""Recordings on disk: the first call of a process is answered by a plan that another process has kept.

``first_call.py`` is the first file to read: the calls of a compiled function that has no dispatcher yet. A plan's key
is text: of the call (``call_text.py``), and of what the run has read (``reads_text.py``), which names what libraries
have (``library_text.py``).
``plan_file.py`` is its form as bytes (``encoding.py``), and how it runs. These need nothing but NumPy. ``keep.py``
makes plans of recordings, those of a log by ``log_text.py``, and compares a recording with the plan that has answered
before it.
"""
