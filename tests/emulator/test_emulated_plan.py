"""run_plan: launches in order over shared arrays and workspaces."""

import numpy as np
import pytest
from emulated import assemble

from im2wingen.emulator import plan as emulated_plan
from im2wingen.emulator import run_plan
from im2wingen.errors import EmulatorError
from im2wingen.families.base import Launch, Plan
from im2wingen.render import Source

TEXTS = {
    "double_into": "const float* x, float* doubled) { doubled[threadIdx.x] = 2.0f * x[threadIdx.x]; }",
    "add_into": "const float* doubled, const float* x, float* y) { int i = threadIdx.x; y[i] = doubled[i] + x[i]; }",
    "overrun": "const float* x, float* doubled) { doubled[threadIdx.x + 8] = x[threadIdx.x]; }",
    "unwritten": "const float* x, float* doubled) {}",
}


def render(launch: Launch) -> Source:
    body = f'<% include "parts/prelude.cuh" %>\nextern "C" __global__ void {launch.template}({TEXTS[launch.template]}\n'
    return assemble(launch.template, body + f"IM2WINGEN_EMULATED_ENTRY({launch.template})\n")


def plan(first: str) -> Plan:
    def launch(template: str, *arguments: str) -> Launch:
        return Launch(template=template, values={}, grid=(1, 1, 1), block=8, smem_bytes=0, arguments=arguments)

    launches = (launch(first, "x", "doubled"), launch("add_into", "doubled", "x", "y"))
    return Plan(launches=launches, workspace={"doubled": 32})


@pytest.fixture(autouse=True)
def own_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated_plan, "render", render)


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    x = np.arange(8, dtype=np.float32)
    x.flags.writeable = False
    return {"x": x, "y": np.full(8, np.nan, np.float32)}


def test_launches_share_the_workspace(arrays: dict[str, np.ndarray]) -> None:
    run_plan(plan("double_into"), arrays, seed=1)
    np.testing.assert_array_equal(arrays["y"], 3 * arrays["x"])


def test_workspace_begins_as_nan(arrays: dict[str, np.ndarray]) -> None:
    arrays["y"][:] = 0
    run_plan(plan("unwritten"), arrays)
    assert np.isnan(arrays["y"]).all()


def test_workspace_is_guarded(arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(EmulatorError, match=r"overrun: .* 0 bytes past the end of doubled"):
        run_plan(plan("overrun"), arrays)


def test_missing_array(arrays: dict[str, np.ndarray]) -> None:
    del arrays["x"]
    with pytest.raises(EmulatorError, match="arrays that are not given: x"):
        run_plan(plan("double_into"), arrays)
