"""Install Foreword into ``.venv``: the built wheel, or with ``--editable`` the source tree.

Nothing is done when what is installed already has the digest of the present sources. Needs only the standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
WHEELS = ROOT / "build" / "wheel"
RECORD = VENV / "foreword-installed.json"


def source_digest() -> str:
    """Digest over the names and bytes of everything that goes into the wheel."""
    frame = [ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE")]
    package = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted([*frame, *package]):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def is_installed(wanted: dict[str, str | list[str]]) -> bool:
    """Whether the record in ``.venv`` has the wanted kind and digest, and at least the wanted extras."""
    if not RECORD.is_file() or not PYTHON.exists():
        return False
    found = json.loads(RECORD.read_text())
    same = all(found.get(key) == wanted[key] for key in ("kind", "digest"))
    return same and set(wanted["extras"]) <= set(found.get("extras", []))


def run(*command: str | Path) -> None:
    """Run a command; its failure ends this program."""
    done = subprocess.run([str(part) for part in command], check=False, cwd=ROOT)
    if done.returncode:
        sys.exit(f"error: {' '.join(str(part) for part in command)} failed")


def make_venv() -> None:
    """Make ``.venv`` with this Python, unless a working one is there."""
    if PYTHON.exists() and not subprocess.run([PYTHON, "-m", "pip", "-V"], check=False, capture_output=True).returncode:
        return
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        sys.exit("error: this Python has no venv module; install the package python3-venv")
    print(f"making .venv with Python {sys.version.split()[0]}", flush=True)
    run(sys.executable, "-m", "venv", "--clear", VENV)


def install(extras: list[str], *, editable: bool) -> None:
    """Put the package and the extras' dependencies into ``.venv``."""
    pip = (PYTHON, "-m", "pip", "--disable-pip-version-check", "-qq")
    suffix = f"[{','.join(extras)}]" if extras else ""
    if editable:
        print(f"installing the source tree{suffix}", flush=True)
        run(*pip, "install", "--editable", f".{suffix}")
        return
    shutil.rmtree(WHEELS, ignore_errors=True)
    print("building the wheel", flush=True)
    run(*pip, "wheel", "--no-deps", "--wheel-dir", WHEELS, ".")
    wheel = next(WHEELS.glob("foreword-*.whl"))
    print(f"installing {wheel.name}{suffix}", flush=True)
    run(*pip, "install", "--force-reinstall", "--no-deps", wheel)
    run(*pip, "install", f"foreword{suffix} @ {wheel.as_uri()}")


def main() -> None:
    """Bring ``.venv`` up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", help="comma-separated extras of pyproject.toml")
    parser.add_argument("--editable", action="store_true", help="link the source tree instead of installing the wheel")
    options = parser.parse_args()
    extras = [name for name in options.extras.split(",") if name]
    kind = "editable" if options.editable else "wheel"
    wanted: dict[str, str | list[str]] = {"kind": kind, "digest": source_digest(), "extras": extras}
    if is_installed(wanted):
        return
    make_venv()
    RECORD.unlink(missing_ok=True)
    install(extras, editable=options.editable)
    RECORD.write_text(json.dumps(wanted))


if __name__ == "__main__":
    main()
