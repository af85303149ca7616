"""The command ``check``: one example call of a user's function, looked at from all sides.

``example.py`` finds the function and the call, ``report.py`` says what becomes of it, ``differences.py`` compares its
gradient with finite differences.
"""
