"""Makes the README's pictures of the status page: a run of three workers that train on real text, in a browser.

    python3 -B tests/page/screenshots.py BUILD FOLDER

BUILD: a build with the trainer; FOLDER: where the pictures go. Needs `bible` (bible-kjv) and `pngquant`.
"""

import os
import subprocess
import sys
import tempfile

from browser import Browser
from cluster import Coordinator

CONFIG = """
run: {id: english, workers: 3, rounds: 60}
method: eager
inner_steps: 20
model: {layers: 2, width: 64, heads: 2, vocabulary: 256, sequence: 64}
inner: {rate: 3e-3, warmup_steps: 60, batch_size: 8}
rounds: {quorum: 3, heartbeat_interval: 500ms, lease: 5s}
eval: {every: 2, sequences: 64}
"""
WORKERS = ("east", "north", "west")
# The round from which the curves say something.
ROUND = 30
PATIENCE = 900.0  # Seconds; they train.


def write_text(folder):
    text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, stdout=subprocess.PIPE).stdout
    share = len(text) // (len(WORKERS) + 1)
    for i, name in enumerate((*WORKERS, "held-out")):
        with open(os.path.join(folder, name), "wb") as out:
            out.write(text[i * share:(i + 1) * share])


def start_worker(folder, coordinator, name):
    return subprocess.Popen(
        [os.path.join(os.environ["DILOCO_BIN"], "diloco-worker"), "--coordinator", coordinator.address, "--id", name,
         "--data", os.path.join(folder, name), "--held-out", os.path.join(folder, "held-out"), "--device", "cpu",
         "--threads", "1", "--progress", "none", "--log-level", "error"])


def shoot(page, folder, name, height):
    path = os.path.join(folder, f"status-page-{name}.png")
    page.evaluate("new Promise(requestAnimationFrame)")
    page.screenshot(path, height)
    subprocess.run(["pngquant", "--force", "--ext", ".png", "--speed", "1", "64", path], check=True)


def main(build, pictures):
    os.environ["DILOCO_BIN"] = os.path.join(build, "bin")
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        write_text(folder)
        coordinator = Coordinator(folder, CONFIG)
        coordinator.start()
        workers = {name: start_worker(folder, coordinator, name) for name in WORKERS}
        try:
            page = browser.new_page()
            page.set_screen(1280, 900)
            page.go(coordinator.url)
            page.wait_for(f"parseInt(document.getElementById('rounds').innerText) >= {ROUND}", PATIENCE)
            shoot(page, pictures, "desktop", None)
            workers["north"].kill()
            page.wait_for("document.getElementById('state').innerText.startsWith('Stalled')", PATIENCE)
            page.set_screen(1280, 900, dark=True)
            shoot(page, pictures, "stalled", 900)
            page.set_screen(390, 844, dark=True)
            shoot(page, pictures, "phone", 1320)
        finally:
            for worker in workers.values():
                worker.kill()
                worker.wait()
            coordinator.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
