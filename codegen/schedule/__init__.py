"""Where each value of a program is computed: ``schedule.py`` places values in a loop tree (``loop_tree.py``).

Index maps are affine (``affine.py``, ``index_maps.py``); ``dependences.py`` says what a stored value reads and where.
"""
