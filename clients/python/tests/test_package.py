"""The wheel that pip gets is whole: it can be imported by itself, and its record names every file."""

import csv
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = "import sys, build_backend as b; print(b.build_wheel(sys.argv[1]), b.build_sdist(sys.argv[1]))"


class Package(unittest.TestCase):
    def test_a_wheel_is_made_without_any_tool(self) -> None:
        def python(*arguments: str, folder: str | Path) -> str:
            command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {arguments[0]}", *arguments[1:]]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        with tempfile.TemporaryDirectory() as folder:
            wheel, sdist = python(BUILD, folder, folder=ROOT).split()
            self.assertTrue((Path(folder) / sdist).exists())
            with zipfile.ZipFile(Path(folder) / wheel) as archive:
                names = archive.namelist()
                record = next(name for name in names if name.endswith("/RECORD"))
                recorded = [row[0] for row in csv.reader(archive.read(record).decode().splitlines())]
            self.assertEqual(sorted(recorded), sorted(names))
            # What executors fill in comes from deploy/, so that there is one of each.
            self.assertIn("millrace/slurm-sweep.sbatch", names)
            self.assertIn("millrace/kubernetes-sweep.yaml", names)
            self.assertIn(wheel, python("import millrace; print(millrace.Client, millrace.__file__)", folder=Path(folder) / wheel))
            # An archive of sources makes the same wheel, without the repository around it.
            again = Path(folder) / "again"
            with tarfile.open(Path(folder) / sdist) as sources:
                sources.extractall(folder, filter="data")
            again.mkdir()
            python(BUILD, str(again), folder=Path(folder) / sdist.removesuffix(".tar.gz"))
            self.assertEqual((again / wheel).read_bytes()[:4], b"PK\x03\x04")
            with zipfile.ZipFile(again / wheel) as archive:
                self.assertEqual(sorted(archive.namelist()), sorted(names))


if __name__ == "__main__":
    unittest.main()
