"""Random numbers as functions of a key and a position. Start reading at ``keys.py`` (keys, splitting, bits), then
``distributions.py``, then ``stream.py`` (the default stream, for calls without a key). The bits themselves are one
primitive, ``../ops/threefry.py``.
"""
