"""Headers and object files: C and Rust get Python's bits."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from ahead_programs import COMPILED, PROGRAMS
from in_c import results_in_c

from tracegrad import UnsupportedError, compile_grad
from tracegrad.codegen.cpu.elf import undefined_symbols
from tracegrad.runtime.launch.kernel_cache import KernelCache

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="levels are those of x86-64")
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="object files are linked on Linux here")
GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
RUST = pytest.mark.skipif(shutil.which("rustc") is None, reason="no rustc")

MAIN_C = r"""
#include <stdio.h>
#include "logistic.h"
static double in[10 + 500 * 10], out[11];
int main(void) {
    FILE *f = fopen("in.bin", "rb");
    if (!f || fread(in, 8, 5010, f) != 5010) return 10;
    int status = logistic(in, in + 10, 0.5, out, out + 1);
    if (status) return status;
    f = fopen("out.bin", "wb");
    fwrite(out, 8, 11, f);
    return fclose(f);
}
"""
MAIN_RS = r"""
use std::fs;
extern "C" {
    fn logistic(w: *const f64, x: *const f64, s: f64, value: *mut f64, grad_w: *mut f64) -> i32;
}
fn main() {
    let bytes = fs::read("in.bin").unwrap();
    let all: Vec<f64> = bytes.chunks(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect();
    let mut out = [0.0f64; 11];
    let p = out.as_mut_ptr();
    assert_eq!(unsafe { logistic(all.as_ptr(), all[10..].as_ptr(), 0.5, p, p.add(1)) }, 0);
    fs::write("out.bin", out.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
}
"""


@pytest.fixture
def exported(tmp_path):
    w, X, s = PROGRAMS["logistic"][1]
    np.concatenate([w, X.ravel()]).tofile(tmp_path / "in.bin")
    files = COMPILED["logistic"].export_c(tmp_path, w, X, s)
    return tmp_path, files, COMPILED["logistic"].value_and_grad(w, X, s)


def same_bits(folder, expected):
    found = np.fromfile(folder / "out.bin")
    assert found[0] == expected[0]
    assert np.array_equal(found[1:], expected[1])


@LINUX
@GCC
@pytest.mark.parametrize("compiler", [("gcc", "-std=c99", "-pedantic"), ("g++", "-x", "c++")], ids=["C", "C++"])
def test_a_program_in_c(exported, compiler):
    folder, files, expected = exported
    (folder / "main.c").write_text(MAIN_C)
    flags = ["-Wall", "-Wextra", "-Werror", "-o", "main"]
    subprocess.run([*compiler, *flags, "main.c", "-x", "none", files.object, *files.link], cwd=folder, check=True)
    subprocess.run(["./main"], cwd=folder, check=True)
    same_bits(folder, expected)


@LINUX
@RUST
def test_a_program_in_rust(exported):
    folder, files, expected = exported
    (folder / "main.rs").write_text(MAIN_RS)
    given = [part for arg in (files.object, *files.link) for part in ("-C", f"link-arg={arg}")]
    subprocess.run(["rustc", "--edition", "2021", "main.rs", *given, "-o", "main"], cwd=folder, check=True)
    subprocess.run(["./main"], cwd=folder, check=True)
    same_bits(folder, expected)


@LINUX
@GCC
def test_two_functions_in_one_library(tmp_path):
    """Their own parts do not meet under one name."""
    (x,) = PROGRAMS["branch"][1]
    first = COMPILED["branch"].export_c(tmp_path, x, mode="value")
    second = COMPILED["until"].export_c(tmp_path, x, mode="value")
    objects = [first.object, second.object]
    subprocess.run(["gcc", "-shared", "-o", "both.so", *objects, *first.link, *second.link], cwd=tmp_path, check=True)
    shown = subprocess.run(["nm", "-D", "--defined-only", "both.so"], cwd=tmp_path, check=True, capture_output=True)
    assert [line.split()[-1] for line in shown.stdout.decode().splitlines()] == ["branch", "until"]


def matrices(A, b):
    L, (_, logdet) = np.linalg.cholesky(A), np.linalg.slogdet(A)
    return b @ np.linalg.solve(A, b) + logdet + np.sum(L @ L) + np.sum(np.linalg.eigvalsh(A) ** 0.5)


@pytest.mark.slow
@LINUX
@GCC
def test_factors_of_matrices_in_c(tmp_path):
    """With the BLAS and LAPACK that the linker finds."""
    flags = ["gcc", "-shared", "-o", tmp_path / "none.so", "-Wl,--no-as-needed", "-llapack", "-lblas"]
    if subprocess.run(flags, capture_output=True).returncode:
        pytest.skip("no LAPACK for the linker (Debian: libopenblas-dev, or liblapack-dev)")
    A = np.random.default_rng(0).normal(size=(12, 12))
    A, b = A @ A.T + np.eye(12), A[0]
    f = compile_grad(matrices, argnums=(0, 1))
    compiled = f.lower(A, b).compile()
    value, *gradient = results_in_c(compiled, (A, b), tmp_path)
    expected = f.value_and_grad(A, b)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    for found, wanted in zip(gradient, expected[1], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
    with pytest.raises(subprocess.CalledProcessError, match="exit status 1"):  # the number of what must hold
        results_in_c(compiled, (-A, b), tmp_path)


@LINUX
@GCC
@X86
def test_another_processor(tmp_path):
    f, args = COMPILED["logistic"], PROGRAMS["logistic"][1]
    compiled, (value, gradient) = f.lower(*args).compile(), f.value_and_grad(*args)
    found = results_in_c(compiled, args, tmp_path, cpu="x86-64-v2")
    np.testing.assert_allclose(found[0], value, rtol=1e-14)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-13)
    assert "for x86-64-v2." in (tmp_path / "exported.h").read_text()
    assert "_ZGVb" in (tmp_path / "exported.o").read_bytes().decode("latin1"), "vectors of 16 bytes"
    if shutil.which("qemu-x86_64"):
        again = results_in_c(compiled, args, tmp_path, ["qemu-x86_64", "-cpu", "Nehalem"], cpu="x86-64-v2")
        assert all(map(np.array_equal, found, again))
    compiled.export_c(tmp_path, "here")
    assert "needs a processor that has" in (tmp_path / "here.h").read_text()


@LINUX
@pytest.mark.parametrize(("name", "wanted"), [("products", "dgemm_"), ("factors", "dpotrf_"), ("divided", "malloc")])
def test_libraries_that_it_needs(tmp_path, name, wanted):
    files = COMPILED[name].export_c(tmp_path, *PROGRAMS[name][1])
    with open(files.object, "rb") as file:
        symbols = undefined_symbols(file.read())
    assert wanted in symbols
    assert not [symbol for symbol in symbols if ":" in symbol or "pool" in symbol or symbol.startswith("Py")]
    assert ("-lblas" in files.link) == (name != "divided")
    assert ("-llapack" in files.link) == (name == "factors")


def test_the_header_says_what_is_given(tmp_path):
    x = PROGRAMS["picked"][1]
    with open(COMPILED["picked"].export_c(tmp_path, *x, name="cubes").header) as file:
        header = file.read()
    for text in ("int cubes(const double *x,", "const int64_t *places,", "double *grad_x);", "places: 3 elements"):
        assert text in header


def test_errors(tmp_path):
    from scipy.special import gammaln

    with pytest.raises(UnsupportedError, match=r"code of scipy\.special[^\n]*\n.*test_c_files"):
        compile_grad(lambda x: np.sum(gammaln(x))).export_c(tmp_path, np.ones(3))
    with pytest.raises(ValueError, match="a name of a function in C"):
        COMPILED["number"].export_c(tmp_path, 0.3, name="2x")
    with pytest.raises(ValueError, match="cpu: one of 'native'"):
        COMPILED["number"].export_c(tmp_path, 0.3, cpu="pentium")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["missing", "missing/too", "file", "file/below"])
def test_a_folder_that_is_not_there_is_named_before_anything_is_compiled(below, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    place, compiled = tmp_path / below, compile_grad(lambda x: np.sum(x)).lower(np.ones(3)).compile()
    error = NotADirectoryError if below == "file" else FileNotFoundError
    with pytest.raises(error, match="export_c: th") as found:
        compiled.export_c(place, "f")
    assert found.value.filename == str(place)
    monkeypatch.setattr(KernelCache, "get", None)
    message = re.escape(f"os.makedirs({str(place)!r}") if error is FileNotFoundError else "no folder"
    with pytest.raises(error, match=message):
        compile_grad(lambda x: np.sum(np.cosh(x))).export_c(str(place), np.ones(3), name="g")
    with pytest.raises(error, match=message):
        compile_grad(lambda x: np.sum(np.cosh(x))).export_c(place, np.ones(3), sizes={"n": (1, 3)})
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file"]


def test_the_folder_of_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compile_grad(lambda x: np.sum(x)).export_c("", np.ones(3), name="f")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.h", "f.o"]
