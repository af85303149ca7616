"""The ``cupy.cuda`` of the stand-in: memory, streams, the driver."""

from __future__ import annotations

import ctypes
import gc
import types
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

counts: Counter[str] = Counter()  # "upload", "download", "wait" (the host waits for the device), "copy", "kernel"
log: list[tuple[Any, ...]] = []  # what streams were told


pinned: set[int] = set()  # addresses of arrays in pinned memory


class OutOfMemoryError(MemoryError):
    pass


class CUDARuntimeError(RuntimeError):
    pass


class MemoryPool:
    """Counts the bytes of the arrays that are alive, and refuses to go beyond a limit."""

    def __init__(self) -> None:
        self._used, self._limit = 0, 0

    def allocate(self, owner: Any, nbytes: int) -> None:
        size = -(-nbytes // 512) * 512
        if self._limit and self._used + size > self._limit:
            raise OutOfMemoryError(
                f"Out of memory allocating {size:,} bytes (allocated so far: {self._used:,} bytes, limit set to: "
                f"{self._limit:,} bytes)."
            )
        self._used += size
        weakref.finalize(owner, self._free, size).atexit = False

    def _free(self, size: int) -> None:
        self._used -= size

    def used_bytes(self) -> int:
        return self._used

    def total_bytes(self) -> int:
        return self._used

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self._limit = size or 0

    def leave(self, size: int) -> None:
        """Limit the memory to what is in use and *size* more; what others have left in cycles is no room."""
        gc.collect()
        self.set_limit(size=self.used_bytes() + size)

    def free_all_blocks(self, stream: Any = None) -> None:
        log.append(("free_all_blocks",))


pool = MemoryPool()


class Event:
    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def synchronize(self) -> None:
        counts["wait"] += 1


class Graph:
    """What was submitted while a stream captured, to be done again by ``launch``."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def launch(self, stream: Any = None) -> None:
        counts["replay"] += 1
        for work in self.work:
            work()


class Stream:
    def __init__(self, ptr: int = 0, non_blocking: bool = False) -> None:
        self.ptr = ptr
        self.capturing: Graph | None = None
        self._before: Stream | None = None

    def __enter__(self) -> Stream:
        global current
        self._before, current = current, self
        return self

    def __exit__(self, *_: Any) -> None:
        global current
        current = self._before

    def begin_capture(self, mode: Any = None) -> None:
        self.capturing = Graph()

    def end_capture(self) -> Graph:
        counts["capture"] += 1
        graph, self.capturing = self.capturing, None
        assert graph is not None
        return graph

    def submit(self, work: Callable[[], None]) -> None:
        """What a launch does: *work* now, or when the graph that is being captured is launched."""
        if self.capturing is not None:
            self.capturing.work.append(work)
        else:
            work()

    def record(self, event: Any = None) -> Event:
        log.append(("record", self.ptr))
        return Event(self)

    def wait_event(self, event: Event) -> None:
        log.append(("wait_event", self.ptr, event.stream.ptr))

    def synchronize(self) -> None:
        counts["wait"] += 1


current = Stream()


class Device:
    id = 0
    compute_capability = "90"

    def __init__(self, device: int | None = None) -> None:
        self.id = 0 if device is None else device

    def synchronize(self) -> None:
        counts["wait"] += 1


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        if not ptr and device_id < 0:
            raise RuntimeError("UnownedMemory requires explicit device ID for a null pointer.")
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.offset, self.ptr = mem, offset, mem.ptr + offset

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: Any = None) -> None:
        counts["copy"] += 1
        to, source = self.ptr, src.ptr
        current.submit(lambda: ctypes.memmove(to, source, size))


class Pointer:
    """The ``data`` of an array."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> Any:
    """Of an object whose ``__dlpack__`` gives an array of this stand-in, over the same memory."""
    capsule = array.__dlpack__(stream=current.ptr)
    return capsule.view()


cuda = types.SimpleNamespace(
    memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    runtime=types.SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError, getDeviceCount=lambda: 1, driverGetVersion=lambda: 13000,
        getDeviceProperties=lambda index: {"name": b"Stand-in"}, memoryTypeHost=1,
        pointerGetAttributes=lambda ptr: types.SimpleNamespace(type=int(ptr in pinned)),
    ),
    Device=Device, Stream=Stream, ExternalStream=Stream, Event=Event, UnownedMemory=UnownedMemory,
    MemoryPointer=MemoryPointer, get_current_stream=lambda: current, is_available=lambda: True,
)  # fmt: skip
