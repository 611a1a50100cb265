"""The one cache model: block keys, engine hit rules, the watermark closed form and serial replay.

Planning, content validation, the built-in server and trace replay all call this package. It is pure: token ids and
keys in, hits out.
"""
