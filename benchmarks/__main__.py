"""``python -m benchmarks``: time tracegrad and its peers side by side."""

from __future__ import annotations

import argparse
import sys

from .pin import pin


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peers", default="", help="comma-separated: jax,torch,torch-compile,autograd,drjit,numpy")
    parser.add_argument("--only", default="", help="comma-separated workloads or groups of them, e.g. black_scholes")
    parser.add_argument("--threads", type=int, default=1, help="cores and threads for everybody (default 1)")
    parser.add_argument("--quick", action="store_true", help="few short rounds; saved only with --save")
    parser.add_argument("--rounds", type=int, default=0, help="steady-state rounds (default 15; 5 with --quick)")
    parser.add_argument("--first-calls", type=int, default=-1, help="processes per first call (3; 1 with --quick)")
    parser.add_argument("--disk-cache", action="store_true", help="also first calls that find a filled cache on disk")
    parser.add_argument("--no-limit", action="store_true", help="leave the hand-written numba kernels out")
    parser.add_argument("--save", action="store_true", help="write RESULTS.md even with --quick or --threads")
    parser.add_argument("--no-save", action="store_true", help="don't write RESULTS.md")
    parser.add_argument("--check", action="store_true", help="only compare values and gradients, time nothing")
    parser.add_argument("--memory", action="store_true", help="measure the memory of one cached call, nothing else")
    parser.add_argument("--scaling", action="store_true", help="kernels with --threads beside one thread, nothing else")
    parser.add_argument("--loops", action="store_true", help="control flow only: loops, while, if")
    parser.add_argument("--transforms", action="store_true", help="Hessians, products with them, per-example gradients")
    parser.add_argument("--adbench", action="store_true", help="ADBench's objectives: gradients, Jacobians")
    parser.add_argument("--training", action="store_true", help="time whole training steps, nothing else")
    parser.add_argument("--science", action="store_true", help="time the programs of tests/science, nothing else")
    parser.add_argument("--against", metavar="PATH", help="this checkout beside the one at PATH, nothing else")
    parser.add_argument("--gpu", action="store_true", help="tests and benchmarks on a GPU, nothing else")
    parser.add_argument("--gpu-static", action="store_true", help="what the CUDA kernels are like; needs no GPU")
    parser.add_argument("--report", action="store_true", help="write RESULTS.md and the plot anew from the stored rows")
    parser.add_argument("--list", action="store_true", help="list the workloads")
    parser.add_argument("--child", nargs=2, metavar=("WORKLOAD", "PEER"), help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main() -> int:
    """Pin the process, then load what needs the pinning."""
    options = parse()
    if options.gpu:
        from .gpu_check import run as run_gpu

        return run_gpu(options)
    cores = pin(options.threads)
    if options.child:
        from .first_call import child

        workload, peer = options.child
        child(workload, peer, options.threads)
        return 0
    if options.memory:
        from .memory import run as measure_memory

        return measure_memory(options)
    if options.scaling:
        from .scaling import run as run_scaling

        return run_scaling(options)
    if options.training:
        from .training import run as run_training

        return run_training(options)
    if options.science:
        from .science import run as run_science

        return run_science(options)
    if options.against:
        from .against import run as run_against

        return run_against(options)
    if options.gpu_static:
        from .gpu_static import run as run_static

        return run_static(options)
    from .run import run

    return run(options, cores)


if __name__ == "__main__":
    sys.exit(main())
