#!/usr/bin/env python3
"""Runs a command beside busy processes: tools/beside.py COUNT COMMAND..."""

import subprocess
import sys

if __name__ == "__main__":
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(int(sys.argv[1]))
    ]
    try:
        sys.exit(subprocess.run(sys.argv[2:]).returncode)
    finally:
        for process in busy:
            process.kill()
