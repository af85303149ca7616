"""Other libraries' surfaces over tracegrad, for code that imports them: ``autograd`` is HIPS autograd's.  Nothing in
here is imported before it is asked for."""
