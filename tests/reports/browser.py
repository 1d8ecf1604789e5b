"""Opens a page in a headless Chromium, and asks it what it shows."""

import html
import json
import re
import shutil
import subprocess
import tempfile

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]

# Notes errors from the start of the page, and writes what it finds into the page.
_BEFORE = """<script>
const errors = [];
console.error = (...parts) => errors.push(parts.join(" "));
addEventListener("error", event => errors.push(String(event.message || event.target.src)), true);
</script>"""
_AFTER = """<script>
addEventListener("load", () => {
  const images = [];
  for (const image of document.images) {
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth;
    canvas.height = image.naturalHeight;
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
    const colors = new Set(new Uint32Array(pixels.buffer)).size;
    images.push({width: image.naturalWidth, shown: image.clientWidth, colors, alt: image.alt});
  }
  const findings = document.createElement("pre");
  findings.id = "findings";
  findings.textContent = JSON.stringify({
    errors, images,
    width: innerWidth,
    contentWidth: document.documentElement.scrollWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    requests: performance.getEntriesByType("resource").map(e => e.name.slice(0, 40))
      .filter(name => !name.startsWith("data:")),
    background: getComputedStyle(document.body).backgroundColor,
  });
  parent.document.body.append(findings);
});
</script>"""

# A frame, because no window is narrower than 500 pixels.
_FRAME = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe></body>"""


def inspect(page, folder, width, dark=False):
    """Returns what a browser of a given width finds in a page.

    Args:
        page: The HTML.
        folder: A directory for files that are not needed afterwards.
        width: The width of the window.
        dark: Whether the user prefers dark pages.
    """
    watched = page.replace("<head>", f"<head>{_BEFORE}", 1)
    watched = watched.replace("</body>", f"{_AFTER}</body>")
    path = folder / f"page-{width}-{dark}.html"
    path.write_text(_FRAME.format(width=width, page=html.escape(watched)), "utf-8")
    dumped = _run(folder, path, dark, "--virtual-time-budget=20000", "--dump-dom")
    (found,) = re.findall('<pre id="findings">(.*?)</pre>', dumped, flags=re.DOTALL)
    return json.loads(html.unescape(found))


def _run(folder, path, dark, *arguments):
    profile = tempfile.mkdtemp(dir=folder)
    command = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", *arguments]
    if dark:
        command.append("--blink-settings=preferredColorScheme=0")
    done = subprocess.run(
        [*command, path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout
