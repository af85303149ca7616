"""Runs of converted code, whose reads of the outside are logged (FRONTEND: the log; start with ``run.py``).

``reads.py``       the log of reads: a graph of what the run has read, with a guard for each
``callees.py``     what a callee is: converted code, a known pure function, or neither
``attributes.py``  loads of attributes: the place in an object or a class that one reads
``library_objects.py``, ``kept_results.py``, ``texts.py``, ``generated.py``, ``entered.py``: single kinds of things
``run.py``         the object that converted code goes through
``record.py``      one call recorded so
"""
