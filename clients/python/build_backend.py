"""Makes the package for pip (PEP 517): its files are copied as they are, so that no build tool has to be downloaded."""

import base64
import hashlib
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
_NAME = f"{_PROJECT['name']}-{_PROJECT['version']}"
_METADATA = f"""Metadata-Version: 2.1
Name: {_PROJECT["name"]}
Version: {_PROJECT["version"]}
Summary: {_PROJECT["description"]}
License: {_PROJECT["license"]["text"]}
Requires-Python: {_PROJECT["requires-python"]}
Description-Content-Type: text/markdown

"""
# Of deploy/: from there in the repository, from the package in an archive of sources.
_TEMPLATES = ("slurm-sweep.sbatch", "kubernetes-sweep.yaml")
_WHEEL = "Wheel-Version: 1.0\nGenerator: build_backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """A wheel: the package's files, metadata, and a record of both."""
    files = {f"millrace/{path.name}": path.read_bytes() for path in sorted((_ROOT / "millrace").glob("*.py"))}
    files |= {f"millrace/{name}": _template(name).read_bytes() for name in _TEMPLATES}
    files["millrace/py.typed"] = b""
    info = f"{_NAME}.dist-info"
    files[f"{info}/METADATA"] = (_METADATA + (_ROOT / "README.md").read_text()).encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    record = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    wheel = f"{_NAME}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """The sources, from which a wheel can be made again."""
    sdist = f"{_NAME}.tar.gz"
    with tarfile.open(Path(sdist_directory) / sdist, "w:gz") as archive:
        for path in ["pyproject.toml", "README.md", "build_backend.py", *(_ROOT / "millrace").glob("*.py")]:
            name = (_ROOT / path).relative_to(_ROOT)
            archive.add(_ROOT / path, f"{_NAME}/{name}")
        for template in _TEMPLATES:
            archive.add(_template(template), f"{_NAME}/millrace/{template}")
    return sdist


def _template(name: str) -> Path:
    shipped = _ROOT / "millrace" / name
    return shipped if shipped.is_file() else _ROOT.parents[1] / "deploy" / name


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
