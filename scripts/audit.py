"""Hold the pinned packages against the known vulnerabilities: those of Python with pip-audit, those of npm with npm.

Exit status: 0 nothing is known, 1 something is, 2 a registry did not answer, so that nothing is known of its packages.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NPM = ("labextension", "editors/vscode")
SECONDS = 300


class SilentError(Exception):
    """Reports a registry that did not answer, with what was said instead."""


def _answer(command: list[str], where: Path) -> Any:
    """Return what a command prints as JSON."""
    try:
        done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SilentError(str(error)) from error
    try:
        return json.loads(done.stdout)
    except ValueError:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise SilentError(said[-1] if said else f"exit status {done.returncode}") from None


def of_python(file: Path) -> list[str]:
    """Return the vulnerabilities of the packages that a file of requirements pins."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off"]
    found = _answer([*command, "--format", "json", "--requirement", str(file)], ROOT)
    if skipped := [package["name"] for package in found["dependencies"] if "skip_reason" in package]:
        count = len(found["dependencies"])
        raise SilentError(f"nothing is told of {len(skipped)} of {count} packages, such as {skipped[0]}")
    return [
        f"{package['name']} {package['version']}: {item['id']}, right in {', '.join(item['fix_versions']) or 'none'}"
        for package in found["dependencies"]
        for item in package.get("vulns", ())
    ]


def of_npm(folder: Path) -> list[str]:
    """Return the vulnerabilities of the packages that the lock file of a folder pins."""
    if shutil.which("npm") is None:
        raise SilentError("there is no npm")
    found = _answer(["npm", "audit", "--json"], folder)
    if not isinstance(found, dict) or "vulnerabilities" not in found:
        error = found.get("error", {}) if isinstance(found, dict) else {}
        raise SilentError(str(error.get("summary") or found.get("message") or error or "no answer"))
    return [f"{name}: {item['severity']}, {item['range']}" for name, item in found["vulnerabilities"].items()]


def main() -> int:
    jobs = [(of_python, file) for file in sorted((ROOT / "requirements").glob("*.txt"))]
    jobs += [(of_npm, ROOT / folder) for folder in NPM]
    known, silent = 0, 0
    for audit, place in jobs:
        name = place.relative_to(ROOT).as_posix()
        try:
            found = audit(place)
        except SilentError as error:
            silent += 1
            print(f"{name}: not audited, no answer: {error}")
            continue
        known += len(found)
        print(f"{name}: {len(found) or 'no'} known vulnerabilit{'y' if len(found) == 1 else 'ies'}")
        print(*(f"  {line}" for line in found), sep="\n", end="\n" if found else "")
    return 1 if known else 2 if silent else 0


if __name__ == "__main__":
    raise SystemExit(main())
