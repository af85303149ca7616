"""Scheduling: fusion of loops, storage of values, memory. ``schedule.py`` is the first file to read:
``Placer`` decides which values may share a loop, ``worth_storing`` which are stored. The result is a loop tree
(``loop_tree.py``) and a memory plan (``memory.py``). Index maps are affine (``affine.py``, ``index_maps.py``);
``dependences.py`` has the reads of each stored value; ``functions.py`` says how many functions scalar statements are,
and where scalars lie; ``early_exit.py`` moves steps that guards need to the front.
"""
