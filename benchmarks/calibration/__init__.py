"""Published measurements of public kernels beside what the timing model predicts for them.

`benchmarks/published.json` holds the measurements and says how each kernel is run; `published` reads it. `clones` takes
the kernels out of clones at the commits that the data names, `worker` profiles them in processes of their own,
`running` starts these and keeps their answers. `statistics` compares, `page` writes `docs/accuracy.md`, and `gate`
predicts our own small kernels for the tests. `python -m benchmarks.calibration --help` lists the commands.
"""
