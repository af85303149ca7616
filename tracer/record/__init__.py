"""One recording: nodes, guards and captured arrays (``recorder.py``), made by traced arrays (``array.py``) over
buffers."""
