"""The RFC's own Python names over Foreword's stages (P3.5.1, P3.5.2; decision 10).

They take and give plain objects, one a request, so that every stage can be called alone; whole data sets are made
faster by ``foreword.generate``. All names are importable from ``foreword`` too.
"""

from __future__ import annotations
