import json
from pathlib import Path

import pytest
from bench_results import layer, measurement, result, two_layers

from im2wingen.bench.result import BenchResult, geometric_mean, load, save
from im2wingen.errors import UsageError


def test_json_round_trip_keeps_every_field() -> None:
    made = two_layers()
    assert BenchResult.from_json(made.to_json()) == made


def test_save_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "results" / "fp16.json"
    save(result(), path)
    save(two_layers(), path)
    assert load(path) == two_layers()
    assert [p.name for p in path.parent.iterdir()] == ["fp16.json"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.pop("device"), "device"),  # a field is missing
        (lambda d: d.update(extra=1), "extra"),  # a field too many
        (lambda d: d.update(complete="yes"), "complete is 'yes'"),  # a wrong type
        (lambda d: d["layers"][0].update(floor_us=True), r"layers\[0\]: floor_us is True"),  # a bool is no number
        (lambda d: d["layers"][1]["measurements"][0].update(samples=1.5), "samples is 1.5"),  # nested
        (lambda d: d["options"].update(batch="128"), "batch is '128'"),  # inside an optional
    ],
)
def test_a_file_that_does_not_fit_names_the_field(change: object, sentence: str) -> None:
    document = json.loads(two_layers().to_json())
    assert callable(change)
    change(document)
    with pytest.raises(UsageError, match=sentence):
        BenchResult.from_json(json.dumps(document))


@pytest.mark.parametrize("text", ["", "[]", "{", "3"])
def test_what_is_no_result_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="no benchmark result"):
        BenchResult.from_json(text)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        load(tmp_path / "none.json")


def test_speed_up_is_over_the_fastest_entry_of_a_peer() -> None:
    first, second = two_layers().layers
    assert first.speedup("im2wingen") == pytest.approx(2.0)  # the plan, not PyTorch
    assert second.speedup("im2wingen") == pytest.approx(8.0)  # PyTorch, not the plan
    assert second.speedup("im2wingen", "direct") is None
    assert first.floor_share("im2wingen") == pytest.approx(0.5)


def test_geometric_mean_is_over_the_layers_that_have_both() -> None:
    made = two_layers()
    assert made.geometric_mean_speedup("im2wingen") == pytest.approx(4.0)
    alone = layer("cv9", measurement("im2wingen", "im2wingen", 1.0))
    assert result(*made.layers, alone).geometric_mean_speedup("im2wingen") == pytest.approx(4.0)
    assert result(alone).geometric_mean_speedup("im2wingen") is None


def test_geometric_mean_of_numbers() -> None:
    assert geometric_mean([1.0, None, 4.0, 16.0]) == pytest.approx(4.0)
    assert geometric_mean([None]) is None
