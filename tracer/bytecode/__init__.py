"""The few questions about bytecode, and what code without a source is shown. ``concretize.py`` is the first file to
read: it identifies conversions to plain values, so that ``math.frexp(t)`` is refused and ``float(t)`` is a traced
number. ``shown_names.py`` has the functions that recorded code finds under names like ``type`` and ``np.zeros``,
``array_places.py`` the places that make arrays, ``stack_flow.py`` says where a value on the stack goes, ``records.py``
what objects are made of.  What differs between versions of Python is in ``versions.py``.
"""
