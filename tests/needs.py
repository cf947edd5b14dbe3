"""What a build can do, for tests that skip when it cannot."""
import os
import subprocess
import tempfile


def reads_reports(gpuwhy):
    """Was it built with the library (jansson) that reads JSON reports back?"""
    with tempfile.TemporaryDirectory(prefix="gpuwhy-needs-") as folder:
        path = os.path.join(folder, "r.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write('{"schema": "gpuwhy.report/1"}')
        p = subprocess.run([gpuwhy, "read", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8"})
        return b"without the library that reads JSON reports" not in p.stderr


NO_REPORTS = "built without jansson: JSON reports are not read back"
