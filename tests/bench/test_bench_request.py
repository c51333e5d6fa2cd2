import pytest

from im2wingen.bench.request import CPU_PEERS, layer_names, peer_names, request
from im2wingen.bench.result import BenchOptions
from im2wingen.errors import UsageError
from im2wingen.problem import ConvProblem


def asked(*names: str, batch: int | None = None, **changes: object) -> tuple[dict[str, ConvProblem], BenchOptions]:
    arguments: dict[str, object] = {
        "against": ("cudnn",), "precision": "fp16", "layout": "nhwc", "batch": batch, "prepacked": False, "rounds": 3,
        "plan_seconds": 4, "finalists": 3,
    }  # fmt: skip
    return request(names, **(arguments | changes))  # type: ignore[arg-type]


def test_the_suite_is_the_twelve_layers_unless_shapes_are_given() -> None:
    assert layer_names([], "im2win", None)[::11] == ("cv1", "cv12")
    assert layer_names([], "im2win", "cv8, CV1") == ("cv8", "cv1")
    assert layer_names(["cv3", "CV3", "n1c1h1w1k1r1s1"], "im2win", None) == ("cv3", "n1c1h1w1k1r1s1")
    assert len(layer_names(["im2win", "cv3"], "im2win", None)) == 12


@pytest.mark.parametrize(
    ("shapes", "suite", "layers", "sentence"),
    [
        ([], "resnet", None, "suite is 'resnet'; allowed is"),
        ([], "im2win", "cv13", "layers is 'cv13'; allowed are"),
        ([], "im2win", ",", "layers is ','"),
        (["cv1"], "im2win", "cv2", "either shapes or layers"),
    ],
)
def test_layers_that_are_not_there_are_named(shapes: list[str], suite: str, layers: str | None, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("allowed is", "allowed")):
        layer_names(shapes, suite, layers)


def test_peers() -> None:
    assert peer_names("direct,cudnn") == ("direct", "cudnn")
    assert peer_names("None") == ()
    with pytest.raises(UsageError, match="against is 'mkl'; allowed are"):
        peer_names("mkl")
    with pytest.raises(UsageError, match="against is 'cudnn'; allowed are, separated by commas, onednn, "):
        peer_names("cudnn", CPU_PEERS)


def test_the_batch_is_kept_where_all_problems_share_it() -> None:
    problems, options = asked("cv1", "cv5")
    assert (options.batch, problems["cv5"].n) == (128, 128)
    problems, options = asked("cv1", "n2c8h8w8k8r3s3")
    assert (options.batch, problems["n2c8h8w8k8r3s3"].n) == (None, 2)
    assert asked("cv1", "n2c8h8w8k8r3s3", batch=4)[1].batch == 4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"finalists": 0}, "finalists is 0"),
        ({"plan_seconds": -1}, "plan seconds is -1"),
        ({"precision": "fp8"}, "precision is 'fp8'"),
        ({"layout": "hwcn"}, "layout is 'hwcn'"),
    ],
)
def test_bad_options_are_named(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        asked("cv1", **changes)
