"""How large and how fast the live page is: seconds to write it and to its first motion, pictures and physics a second.

    python benchmarks/page.py ant [half_cheetah ...]

It needs Chromium and chromedriver. Chromium draws in software, without a window. Run it on a machine that does nothing
else: figures of a busy one say little. The numbers go to benchmarks/results/page.json.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

RESULTS = Path(__file__).parent / "results" / "page.json"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--window-size=1280,900",
)  # fmt: skip
SECONDS = 10  # of measuring, after as many seconds of warming up as it takes pixels to settle
SETTLE = 5


def measure(name: str, folder: Path) -> dict[str, Any]:
    page = folder / "skills.html"
    began = time.perf_counter()
    command = [sys.executable, "-m", "ibol", "page", name, "--output", str(page), "--overwrite"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wrote = time.perf_counter() - began
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    browser = Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    try:
        browser.get(page.as_uri())
        while not browser.execute_script("return window.ibol && ibol.figures().firstMotion"):
            time.sleep(0.02)
        time.sleep(SETTLE)
        browser.execute_script("window.count = 0; (function f() { count++; requestAnimationFrame(f); })();")
        look = "return [performance.now() / 1000, count, ibol.state().time, ibol.state().resets]"
        before = browser.execute_script(look)
        time.sleep(SECONDS)
        after = browser.execute_script(look)
        figures = browser.execute_script("return ibol.figures()")
        version = browser.capabilities["browserVersion"]
    finally:
        browser.quit()
    passed = after[0] - before[0]
    return {
        "name": name,
        "bytes": page.stat().st_size,
        "seconds_to_write": round(wrote, 2),
        "seconds_to_first_motion": round(figures["firstMotion"], 2),
        "frames_per_second": round((after[1] - before[1]) / passed, 1),
        # A robot that fell meanwhile started anew, and its clock with it.
        "real_time": round((after[2] - before[2]) / passed, 3) if after[3] == before[3] else None,
        "pixels_of_one": round(figures["pixels"], 2),
        "physics": figures["mujoco"],
        "chromium": version,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    names = parser.parse_args().names
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(name, Path(folder)))
        print(json.dumps(rows[-1]))
    made = {
        "command": f"python benchmarks/page.py {' '.join(names)}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "window": "1280x900, headless, software rendering",
        "pages": rows,
    }
    RESULTS.write_text(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main()
