import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled objects go to the session's folder, unless the environment names another one."""
    if "IM2WINGEN_CACHE" in os.environ:
        yield
        return
    os.environ["IM2WINGEN_CACHE"] = str(tmp_path_factory.getbasetemp() / "cache")
    yield
    del os.environ["IM2WINGEN_CACHE"]
