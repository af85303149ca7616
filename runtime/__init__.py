"""The runtime: compiled functions as users call them. ``compiled.py`` is the first file to read (what ``compile_grad``
makes), then ``paths/dispatcher.py`` (how a call is answered). Rooms: ``record`` (one call recorded), ``paths`` (which
recorded path answers a call), ``state`` (what a function reads besides its arguments), ``launch`` (binding, the native
launcher, the kernel cache), ``cuda`` (devices). ``explain.py``, ``stats.py`` and ``config.py`` are for users;
``tensor_library.py`` is the compiler's interface to tensors.
"""
