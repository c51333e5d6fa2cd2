"""The device behind serving: whatever it does, each thread's current context stays as it was."""

import threading
import types

import pytest

from im2wingen.errors import DeviceError, NoDeviceError
from im2wingen.runtime import serving_device as module
from im2wingen.runtime.serving_device import ServingDevice, serving_device

PRIMARY = 7


class Contexts(threading.local):
    """The driver's stack of contexts, one a thread."""

    def __init__(self):
        self.stack = [0]

    def call(self, name, *arguments):
        if name == "cuCtxGetCurrent":
            return self.stack[-1]
        if name == "cuCtxSetCurrent":
            self.stack[-1] = arguments[0]
        elif name == "cuCtxPushCurrent":
            self.stack.append(arguments[0])
        elif name == "cuCtxPopCurrent":
            self.stack.pop()
        return None


class Plan:
    """A LoadedPlan that notes the context in which it was used."""

    def __init__(self, contexts, fails=False):
        self.contexts, self.fails, self.seen = contexts, fails, [contexts.stack[-1]]

    def launch(self, pointers, stream, *, follows=False):
        self.seen.append(self.contexts.stack[-1])
        if self.fails:
            raise DeviceError("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE")

    def unload(self):
        self.seen.append(self.contexts.stack[-1])


@pytest.fixture
def contexts(monkeypatch):
    contexts = Contexts()

    def open_device(ordinal):
        if ordinal:
            raise NoDeviceError("there is one")
        contexts.stack[-1] = PRIMARY
        return types.SimpleNamespace(name="fake", target="target")

    monkeypatch.setattr(module, "open_device", open_device)
    monkeypatch.setattr(module, "device_count", lambda: 1)
    monkeypatch.setattr(module, "driver_call", contexts.call)
    monkeypatch.setattr(module, "driver", types.SimpleNamespace(cuCtxGetCurrent=lambda: (0, contexts.stack[-1])))
    monkeypatch.setattr(module, "LoadedPlan", lambda plan, cubins: Plan(contexts))
    monkeypatch.setattr(module, "_opened", {})
    return contexts


@pytest.mark.parametrize("before", [0, 3, PRIMARY])  # none, another device's, the primary one
def test_the_thread_s_context_stays(contexts, before):
    contexts.stack = [before]
    device = ServingDevice(0)
    plan = device.load(None, ())
    device.launch(plan, {}, 1)
    device.unload(plan)
    assert plan.seen == [PRIMARY] * 3
    assert contexts.stack == [before]


def test_it_stays_after_an_error_too(contexts):
    device = ServingDevice(0)
    with pytest.raises(DeviceError):
        device.launch(Plan(contexts, fails=True), {}, 1)
    assert contexts.stack == [0]


def test_a_fresh_thread_launches(contexts):
    device = ServingDevice(0)
    plan = device.load(None, ())
    thread = threading.Thread(target=device.launch, args=(plan, {}, 1))
    thread.start()
    thread.join()
    assert plan.seen == [PRIMARY] * 2


def test_a_device_is_opened_once(contexts):
    assert serving_device(0) is serving_device(0)
    with pytest.raises(NoDeviceError):
        serving_device(1)
