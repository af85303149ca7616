"""One call recorded: its key (``call_key.py``), the run on traced values (``record.py``), and what it gave."""
