"""SciPy's own modules, under HIPS autograd's names.  Each is imported when it is asked for."""
