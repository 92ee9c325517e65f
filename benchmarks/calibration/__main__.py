"""Compare the published measurements with predictions: `make calibration KERNELS=DIR`.

Writes docs/accuracy.md, benchmarks/accuracy.json and a line of benchmarks/accuracy_history.csv; with --rows or --only
it writes the rows alone. The residuals that intervals come from are written into the package with the page; --residuals
writes them from rows that were kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.calibration import clones, gate, intervals, page, running, statistics
from benchmarks.calibration.comparison import rows_of
from benchmarks.calibration.published import load

PAGE = running.ROOT / "docs" / "accuracy.md"


def main() -> int:
    """Run the command line; return 1 if there are no kernels, or if the errors grew without a reason."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__)
    parser.add_argument("--kernels", type=Path, help="folder of the clones")
    parser.add_argument("--only", help="runs or families, separated by commas")
    parser.add_argument("--tiers", default="A,B,B-,C", help="tiers of the figures that count; default: %(default)s")
    parser.add_argument("--rows", type=Path, help="write published and predicted figures to this JSON file")
    parser.add_argument("--seconds", type=int, default=600, help="processor time of a run; default: %(default)s")
    parser.add_argument("--gib", type=float, default=6, help="memory of a worker; default: %(default)s")
    parser.add_argument("--jobs", type=int, default=2, help="workers at the same time; default: %(default)s")
    parser.add_argument("--worse", default="", metavar="REASON", help="why a larger error than before is right")
    parser.add_argument("--shallow", action="store_true", help="do not switch mechanisms off in turn")
    parser.add_argument("--fresh", action="store_true", help="use no earlier answers")
    parser.add_argument("--residuals", type=Path, nargs="+", metavar="ROWS", help="fit the intervals to these rows")
    options = parser.parse_args()
    if options.residuals:
        kept = [row for path in options.residuals for row in json.loads(path.read_text())]
        intervals.write(statistics.times(kept))
        return 0
    published = load()
    if options.kernels is None:
        print(clones.instructions(published))
        return 1
    tiers = set(options.tiers.split(","))
    chosen = [name for name, figures in published.of_run.items() if any(figure.tier in tiers for figure in figures)]
    if options.only:
        wanted = set(options.only.split(","))
        chosen = [name for name in chosen if {name, published.runs[name].family} & wanted]
    limits = running.Limits(seconds=options.seconds, memory=int(options.gib * 2**30), jobs=options.jobs)
    full = not (options.only or options.rows)
    deep = full and not options.shallow
    measured = [name for name in chosen if deep and any(figure.tier == "A" for figure in published.of_run[name])]
    answers = running.predict(
        published, options.kernels, only=chosen, limits=limits, fresh=options.fresh, mechanisms=measured
    )
    rows = rows_of(published, answers)
    if options.rows:
        options.rows.write_text(json.dumps(rows, indent=1) + "\n")
    if not full:
        return 0
    grown = gate.write(statistics.totals(rows), options.worse)
    for text in grown:
        print(text, file=sys.stderr)
    if not grown:
        intervals.write(statistics.times(rows))
        PAGE.write_text(page.page(published, rows, running.source_hash(gate.TIMING)))
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
