"""The tracer: recording of plain NumPy code as a program. It defines the program (``ir/``) and its primitives
(``ops/``), records (``record/``, ``numpy_api/``, ``control/``, ``random/``), and makes one node of a Python loop
(``loops/``).

Start reading at ``ir/graph.py`` (the program), then ``ir/primitive.py`` and ``ops/elementwise.py`` (primitives), then
``record/array.py`` (traced arrays), then ``loops/for_loop.py`` (loops).
"""
