"""Neural networks in PyTorch's style: modules (``module.py``), their layers, and the functions behind them.

Functions (``functional*.py``) are operations of the eager layer, one for each layer; nothing here knows a derivative.
"""
