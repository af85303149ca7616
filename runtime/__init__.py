"""Running it: compiled functions, recordings and their paths, outside state, the kernel cache, the native launcher.

Start reading at ``compiled.py`` (what ``compile_grad`` makes), then ``paths/dispatch.py`` (how a call is answered).
"""
