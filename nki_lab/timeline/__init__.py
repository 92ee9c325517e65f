"""A program with its addresses, queues and times; the figures of a run, their intervals, and the recording of it.

Nothing here needs values: a program of the tracer's has a timeline, and so has a complete one of the evaluator's.
"""
