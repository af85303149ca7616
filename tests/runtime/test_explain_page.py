"""``explain(format="html")``: one page that needs nothing else, in a real browser; cells of notebooks."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import compile_grad

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
W, X = np.linspace(-1.0, 1.0, 12).reshape(3, 4), np.linspace(0.0, 1.0, 15).reshape(5, 3)


@compile_grad
def model(w, x):
    """A <small> model."""
    h = np.tanh(x @ w)
    for _ in range(20):
        h = h + np.sin(h) * 0.1
    if np.sum(h) > -1e6:
        return np.sum(h**2)
    return np.sum(h)


@pytest.fixture(scope="module")
def page():
    for _ in range(3):
        model.value_and_grad(W, X)
    return model.explain(W, X, format="html")


def test_the_page_is_complete_and_needs_nothing_else(page):
    assert page.startswith("<!DOCTYPE html>") and "{{" not in page
    assert not re.findall(r"""(?:src|href)\s*=|url\(|@import|https?://""", page)
    assert "prefers-color-scheme: dark" in page and "h = np.tanh(x @ w)" in page
    found = re.findall(r"<summary>([^<]+)", page)
    assert found == [
        "graph", "inputs", "loops", "decisions", "memory", "guards", "outside state", "timings", "LLVM IR, as emitted",
        "machine code", "history",
    ]  # fmt: skip
    assert "define" in page and "tg_kernel_s0" in page and ".text" in page
    assert 'aria-label="memory plan"' in page or "no workspace" in page


def test_source_lines_and_rows_of_the_program_have_common_keys(page):
    source, _, program = page.partition("recorded program")
    line = next(line for line in source.splitlines() if "np.tanh(x @ w)" in line)
    row = re.search(r'data-k="([\d-]+)"[^>]*><span class="n">\d+</span><span class="text">[^<]*np.tanh\(x @ w\)', line)
    assert row is not None
    mine = re.findall(rf'<div class="row( adj| fwd)" data-d="\d+" data-k="{row[1]}">', program)
    assert {kind.strip() for kind in mine} == {"adj", "fwd"}


CHECKS = """
<script>
const said = [];
const line = rows.find(row => row.textContent.includes("np.tanh(x @ w)"));
line.click();
said.push("hot " + document.querySelectorAll(".row.hot").length);
line.click(); line.dispatchEvent(new Event("mouseleave"));
said.push("cold " + document.querySelectorAll(".row.hot").length);
const sign = document.querySelector(".fold");
sign.click(); const folded = document.querySelectorAll(".row.hidden").length;
sign.click(); said.push("folded " + (folded > 0) + " " + document.querySelectorAll(".row.hidden").length);
search.value = "tanh"; find();
said.push("marks " + document.querySelectorAll("mark").length + " " + hits.textContent);
search.value = ""; find();
said.push("unmarked " + document.querySelectorAll("mark").length);
button.click(); said.push("open " + document.querySelectorAll("details:not([open])").length);
button.click(); said.push("closed " + document.querySelectorAll("details[open]").length);
document.body.insertAdjacentHTML("beforeend", "<output>" + said.join("; ") + "</output>");
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
def test_in_a_browser_it_folds_searches_and_links(page, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", CHECKS + "</body>"))
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run([*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120)
    said = re.findall(r"<output>(hot .*?)</output>", done.stdout)
    assert said, done.stderr
    told = dict(part.split(" ", 1) for part in said[0].split("; "))
    assert int(told["hot"]) >= 3 and told["cold"] == "0"
    assert told["folded"] == "true 0" and told["unmarked"] == "0"
    count, shown = told["marks"].split(" ", 1)
    assert int(count) > 3 and shown == f"{count} hits"
    assert told["open"] == "0" and told["closed"] == "0"


def test_functions_without_source_and_long_programs_have_pages(monkeypatch):
    space = {"np": np}
    exec(compile("def f(x):\n    return np.sum(np.exp(x))\n", "<nowhere>", "exec"), space)
    assert "the source is not to be had" in compile_grad(space["f"]).explain(W, format="html")
    many = compile_grad(lambda x: sum(np.sum(np.sin(x * k) ** (k % 3 + 1)) * np.cos(k + x[0]) for k in range(90)))
    assert "too many to draw" in many.explain(np.ones(3), format="html")


def test_a_cell_shows_a_report_in_a_frame(page):
    cell = model.explain(W, X)._repr_html_()
    assert cell.startswith("<iframe srcdoc=") and "&lt;!DOCTYPE html&gt;" in cell and cell.count("<") == 2


def test_steps_have_pages():
    w = tg.tensor(np.ones(3), requires_grad=True)

    @tg.compile
    def step(x):
        w.grad = None
        loss = (w * x).sum() ** 2
        loss.backward()
        return loss

    for _ in range(3):
        step(tg.tensor(np.arange(3.0)))
    text = step.explain()
    assert "path 1 of 1" in text and "--- summary" in text and "--- inputs" not in text
    assert "loss = (w * x).sum() ** 2" in step.explain(format="html")
    assert "compiled step" in step._repr_html_() and "why it was recorded" in step._repr_html_()


def test_functions_and_stats_are_tables():
    model.value_and_grad(W, X)
    cell = model._repr_html_()
    assert "A &lt;small&gt; model." in cell and "test_explain_page.py" in cell and "calls" in cell
    assert "why it was recorded" in model.stats._repr_html_()

    class Owner:
        method = model

    assert "compiled method" in Owner().method._repr_html_()


@pytest.mark.parametrize(
    ("tensor", "wanted"),
    [
        (lambda: tg.tensor(np.arange(300.0).reshape(20, 15), requires_grad=True), ["Tensor [20, 15]", "required", "…"]),
        (lambda: tg.tensor([1.0, np.nan, 2.0]), ["1 of 3", "1 to 2", "nan"]),
        (lambda: tg.tensor(3), ["int64", ">3<"]),
        (lambda: tg.zeros(0, 2), ["[0, 2]"]),
        (lambda: tg.ones(2, 3, 2, 2, dtype=tg.bfloat16), ["bfloat16", "the first of 6"]),
        (lambda: tg.tensor([True, False]), ["bool", "True"]),
        (lambda: tg.tensor([2.0], requires_grad=True) * 3, ["MulBackward"]),
    ],
)
def test_tensors_are_tables(tensor, wanted):
    cell = tensor()._repr_html_()
    assert all(text in cell for text in wanted), cell
