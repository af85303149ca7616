"""The four objectives of ADBench in plain NumPy: `gmm`, `ba` (bundle adjustment), `hand` (tracking) and `lstm`.

Each module has the objective, a reader of ADBench's text format, and a `main` that shows its derivatives. The problems
are those of Srajer, Kukelova, Fitzgibbon, "A benchmark of selected algorithmic differentiation tools on some problems
in computer vision and machine learning" (2018), https://github.com/microsoft/ADBench; code and data are our own.
`generate.py` makes the files in data/, and larger problems.
"""
