"""Hypothesis strategies shared by the fuzz targets.

They come in twins: type-directed ones make documents that reach deep code, arbitrary ones make what nobody would write.
"""
