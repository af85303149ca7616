"""Refusals: every "no" of a heuristic or a proof, by code.

The name of a ``Refusal`` begins with what was asked: ``ROWS_OVERLAP``, printed ``rows/overlap``, is why an array is not
written row by row.  Its value is its text, with fields.  A call with the fields gives a ``Reason``, which is what is
kept; ``explain()``, ``stats.live`` and ``autograd.tapes`` print it.  docs/internals/refusals.md lists all codes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

_LISTED = 8
_DRAW = "pass them as an argument, or draw them with tracegrad.random"


class Reason(NamedTuple):
    """A refusal in one case, in words."""

    code: Refusal
    text: str

    def __str__(self) -> str:
        return f"{self.text} ({self.code})"

    def within(self, before: str, after: str = "") -> Reason:
        """The same, between words that say where it applies."""
        return Reason(self.code, f"{before}{self.text}{after}")


@enum.unique
class Refusal(enum.Enum):
    # Does one marked iteration of a Python loop stand for all that remain?
    LOOP_ANSWERS = "what is asked at {site} has other answers in other iterations"
    LOOP_KIND = "`{name}` is of another kind after an iteration"
    LOOP_VALUE = "the Python value `{name}` changes, and not by a constant"
    LOOP_UNSET = "`{name}` is not set after an iteration"
    LOOP_WRITTEN = "`{name}` is written into, and is another array afterwards"
    LOOP_SHARED = "arrays that share memory are carried at {site}"
    LOOP_HELD = "`{name}` is an object that may hold values of one iteration"
    LOOP_NUMBER = "a number of the iteration itself is looked at ({kind}) at {site}"
    LOOP_COUNT = "its number of iterations is another one each time, and its first one stands alone, at {site}"
    LOOP_ENDLESS = "nothing in the iteration says when it ends, at {site}"
    LOOP_SEEN = "{what}, at {site}"

    # Does a loop that data ends stop by itself for any number of turns?

    # Is all that a run of converted code has done in its log?
    LOG_LEARNS = "a run that is logged does not follow what it has learned: {what}"
    LOG_UNSEEN = "the log of the run does not hold {what}"
    LOG_KEPT = "`{what}` keeps its results, and reads what the run changes"

    # Does a turn of the user's code do nothing but compute?

    # Do turns that differ become a loop with branches?

    # Do both arms of an `if` on a traced value run, of which `select` chooses?
    CHOICE_SOURCE = "its arms do more than assign, or its source is not known"
    CHOICE_ASKS = "an arm asks for a value"
    CHOICE_RAISES = "an arm raises, in a run of both, or Python may raise where NumPy does not"
    CHOICE_EFFECT = "an arm draws random numbers, prints, or asks the outside"
    CHOICE_STORES = "an arm writes into a {what}"
    CHOICE_UNSET = "`{name}` is read, and not assigned in both arms"
    CHOICE_CLASS = "it gives numbers of several classes, of which code needs to know one"
    CHOICE_WRITTEN = "it gives one of two arrays, and one is written into afterwards"
    CHOICE_UNLIKE = "{what} is not of one kind in both arms"

    # Is an array written row by row, so that the loop need not carry it?
    ROWS_KEPT = "the whole of it is kept in each step"
    ROWS_WHOLE = "it is used as a whole ({operation} at {site})"
    ROWS_OVERLAP = "what different steps write overlaps"
    ROWS_AXES = "it is written along more than one axis"
    ROWS_SPACING = "the places that are written are not evenly spaced"
    ROWS_BACK_VARIES = "it is read a different number of steps back from step to step"

    # Do two values share a loop, and is a value computed where it is read?
    FUSE_FINISHED = "{value} not fused with {other}: needs the finished result of the loop"
    FUSE_ROW = "{value} not fused with {other}: reads another row than the loop has at hand"
    FUSE_ORDER = "{value} not fused with {other}: one of them has an order of its own"
    FUSE_ARRAYS = "{value} not fused with {other}: too many arrays in one loop"
    FUSE_COST = "{value} is stored: recomputing it would cost more"

    # Are the rows of a long axis taken in strips, so that what goes from product to product stays in cache?
    STRIP_SMALL = "an axis of {count} is not taken in strips: all rows of it, {size} bytes, fit into cache"
    STRIP_LARGE = "an axis of {count} is not taken in strips: {size} numbers that they share, or of a row, are too many"

    # Is a loop one CUDA kernel, whose threads run a trajectory each?
    KERNEL_FOREIGN = "{value} in its body is the array module's"
    KERNEL_CUPY = "runs on the host: {operation}, which CuPy does not have"
    KERNEL_NO_AXIS = "its state has no axis of trajectories"
    KERNEL_STEPS = "it is the axis of the steps"
    KERNEL_INSIDE = "an operand or result has it inside another axis"
    KERNEL_TWICE = "{operation} has it twice"
    KERNEL_ACROSS = "{operation} goes across it"
    KERNEL_CARRY = "its trajectories share a carry"
    KERNEL_WORK = "its trajectories share much work ({value})"

    # Can two paths be tried in one launch?
    LAUNCH_NUMBERS = "Python looked at all bits of a number, which are compared after the launch"
    LAUNCH_DRAWS = "they draw another number of keys from the default stream"
    LAUNCH_INPUTS = "they read other tensors, or find them otherwise"
    LAUNCH_EFFECTS = "their effects are different ones"
    LAUNCH_RESULTS = "their results have other dtypes or shapes"
    LAUNCH_STRUCTURE = "what they return is put together in another way"

    # Is a program in segments cut at a question?
    SEGMENT_NEVER_VARIED = "not cut at {kind}() at {site}: it has always had the same answer"

    # Can a recording be replayed in place of the function's Python?
    REPLAY_BRANCHES = "more than {count} branch outcomes, the last at {site}"
    REPLAY_LONG = "too long to compile as a whole: {count} operations between {branches} branches, the last at {site}"
    REPLAY_CHANGES = "changes `{name}` while it runs"
    REPLAY_RETURNS = "returns an object ({what}), of which the caller may ask which one it is"
    REPLAY_HOLDS = "returns {what}, which reads values of the run later: plain NumPy runs in each call"
    REPLAY_RESTARTS = "learns something new in each of {count} runs of one call, in the last: {what}"
    REPLAY_STREAM = "draws from the default stream of tracegrad.random at {site}"

    # Is a step over tensors replayed?
    STEP_SEES = "{what} at {site}, for which Python has to see the tensor"
    STEP_PARAMETER = "makes a Parameter at {site}"
    STEP_LBFGS = "makes a step of LBFGS, which branches on what it computes, at {site}"
    STEP_DAMPENING = "makes the first step of SGD with dampening at {site}"
    STEP_BACKWARD = "returns a tensor whose backward is an error ({error}) at {site}"
    STEP_VIEW = "the argument `{name}` is a view that requires gradients"
    STEP_DEVICE = "copies a tensor to another device at {site}"
    STEP_MIXED = "makes a tensor on a CUDA device among tensors on the host at {site}"
    STEP_HISTORY = "differentiates through operations that were done before the step, at {site}"
    STEP_DATA = "assigns .data of a tensor at {site}"
    STEP_GRAD = "assigns a tensor from outside to .grad"
    STEP_GRAD_GRAPH = "leaves a .grad that can itself be differentiated (create_graph=True)"
    STEP_GRAD_OF_RESULT = "returns a tensor that it has made, with a .grad"
    STEP_HOOKED = "returns a tensor whose backward runs hooks"
    STEP_OVERWRITES = "overwrites a tensor that the backward of its result reads"
    STEP_NUMBER = "looks at the value of a number ({kind}) at {site}; return the tensor, and take its .item() outside"
    STEP_HOST = "leaves on the host what the device has computed"
    STEP_FOREIGN = "arrays on a CUDA device that are no tensors: the step runs operation by operation"
    STEP_TWO_DEVICES = (
        "tensors on a CUDA device and, requiring gradients, on the host: the step runs operation by operation"
    )
    STEP_STATES = "finds another state outside in each call"
    STEP_LAYOUT = "a tensor that the step writes is not C-contiguous"
    STEP_SHARES = "two tensors that are no views of one another share memory, and one of them ({name}) is written"
    STEP_HISTORY_WRITTEN = "changes the history of a tensor from outside by writing in place, at {site}"
    STEP_LEAF = "returns a tensor that requires gradients of one that it has made itself"
    STEP_REFUSED = "does what can't be recorded: {error}"

    # Is the backward of an eager tape compiled?
    BACKWARD_DEVICE = "the tensors are on a CUDA device"
    BACKWARD_SHAPES = "many shapes of graph, each seen too seldom to be worth a kernel"
    BACKWARD_OVERWRITTEN = "a saved value was overwritten or replaced"
    BACKWARD_LONG = "more than {count} operations"
    BACKWARD_LEAF = "a leaf is among the outputs"
    BACKWARD_FREED = "the graph has been freed"
    BACKWARD_PYTHON = "contains {operation}, whose derivative is Python code"
    BACKWARD_RETAIN = "retain_grad() on an intermediate result"
    BACKWARD_HOOK = "a hook on an intermediate result"
    BACKWARD_ASKED = "asked for with {what}"

    # Does the function call nothing whose answer depends on more than its arguments?
    CALLS_RANDOM = f"draws random numbers: {{what}} at {{site}}; {_DRAW}"
    CALLS_GENERATOR = "{what} at {site}: the state of a generator is not recorded"
    CALLS_CLOCK = "reads the clock: {what} at {site}"
    CALLS_SYSTEM = "depends on files, processes or the environment: {what} at {site}"
    CALLS_FILES = "reads or writes a file: {what} at {site}"
    CALLS_THREADS = "uses threads or locks: {what} at {site}"
    CALLS_INTERPRETER = "depends on the interpreter's state: {what} at {site}"
    CALLS_NAMES = "looks names up while running: {what} at {site}"
    CALLS_MEMORY = "depends on where an object lies in memory: {what} at {site}"
    CALLS_LOG = "writes a log: {what} at {site}"
    CALLS_FLOAT_ERRORS = "has NumPy raise floating-point errors (np.errstate, np.seterr) at {site}"
    CALLS_PRINT = "prints: {what} at {site}"
    CALLS_TEXT = "uses the text of an array of {count} elements at {site}"
    CALLS_OBJECT = "calls an object with hidden state (a file, threads, an iterator): {what} at {site}"

    # Can all that the function reads outside itself be compared in each call?
    STATE_LARGE = "reads more than {count:,} values outside itself; pass them as an array"
    STATE_RANDOM = f"{{what}} has hidden state (it draws random numbers); {_DRAW} (read at {{site}})"
    STATE_FILE = "{what} is an open file; read it before and pass the data (read at {site})"
    STATE_THREADS = "{what} has hidden state (threads or locks); keep it out of the function (read at {site})"
    STATE_ITERATOR = "{what} is an iterator: reading it changes it; turn it into a list before (read at {site})"

    # Can a recording answer the first call of another process?
    DISK_KEY = "{why}, which other processes can't compare"
    DISK_RECORDING = "{why}"

    def __str__(self) -> str:
        question, _, answer = self.name.lower().partition("_")
        return f"{question}/{answer.replace('_', '-')}"

    def __call__(self, **fields: object) -> Reason:
        return Reason(self, self.value.format(**fields))


def listed(reasons: Iterable[Reason]) -> str:
    """The first few of *reasons* in one line, and how many more there are."""
    unique = list(map(str, dict.fromkeys(reasons)))
    rest = len(unique) - _LISTED
    return "; ".join(unique[:_LISTED]) + (f"; and {rest} more" if rest > 0 else "")
