"""The command `nki-lab cache`: the profiles that are kept on disk, and their removal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nki_lab.cli.kernels import Settings

OPTIONS: Final[Mapping[str, Settings]] = {
    "--clear": {"action": "store_true", "help": "remove all profiles, and machine code"},
    "--format": {"choices": ("text", "json"), "default": "text", "help": "of what is printed (default: text)"},
}
"""The options of the command."""


def show_cache(arguments: argparse.Namespace) -> int:
    """Print the folder of the cache and what is in it, or remove that."""
    from nki_lab.dialects.environment import CACHE_VARIABLE, cache_folder
    from nki_lab.kernel_runtime import compiled_code
    from nki_lab.result.profile_cache import ProfileCache

    folder = cache_folder()
    if folder is None:
        print(
            json.dumps({"folder": None}) if arguments.format == "json" else f"{CACHE_VARIABLE} switches the cache off"
        )
        return 0
    cache = ProfileCache(folder)
    removed = cache.clear() if arguments.clear else 0
    if arguments.clear:
        compiled_code.clear()
    found = cache.entries()
    facts = {
        "folder": str(folder),
        "not_used": cache.refusal(),
        "profiles": len(found),
        "bytes": sum(item.nbytes for item in found),
        "limit_bytes": cache.limit,
        "machine_code_bytes": compiled_code.kept_bytes(),
        "removed": removed,
    }
    if arguments.format == "json":
        print(json.dumps(facts, indent=1))
        return 0
    print(f"folder    {folder}")
    if facts["not_used"]:
        print(f"not used  {facts['not_used']}")
    print(f"profiles  {len(found):,}")
    print(f"bytes     {facts['bytes']:,} of at most {cache.limit:,}")
    if facts["machine_code_bytes"]:
        print(f"compiled  {facts['machine_code_bytes']:,} bytes of machine code")
    if arguments.clear:
        print(f"removed   {removed:,}")
    return 0
