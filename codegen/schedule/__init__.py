"""Scheduling: fusion of loops, storage of values, memory. ``schedule.py`` is the first file to read:
``Placer`` decides what may share a loop, ``worth_storing`` what should be stored. The result is a loop tree
(``loop_tree.py``) and a memory plan (``memory.py``). Index maps are affine (``affine.py``, ``index_maps.py``);
``dependences.py`` says what a stored value reads and where; ``early_exit.py`` moves what guards need to the front.
"""
