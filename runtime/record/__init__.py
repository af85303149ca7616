"""Recording of a call. ``call_key.py`` is the first file to read: a call's arguments flattened (``trees.py``), and the
key under which its recordings are kept. ``record.py`` makes live runs of the user's Python, ``derive.py`` what becomes
of any run; a ``Recording`` (``recording.py``) is the result, ``outputs.py`` puts the user's results together,
``differentiable.py`` selects loss and arguments. ``inline.py`` is for a compiled function that is called while another
one is recorded.
"""
