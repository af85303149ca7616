"""Reports on a call: ``f.explain()``, as text and as a page of HTML.  ``explain.py`` is the first file to read: an
``Explanation`` and its levels.  ``look.py`` records the call, ``sections.py`` has the text of each section,
``summary.py`` the ten lines in front, ``names.py`` the names by which all of them call a value, ``page.py`` the page.
"""
