"""Tests run in double precision, with silent rank and dtype promotion forbidden and all shapes checked."""

import os
import shutil
import sys
from pathlib import Path

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
# Batched factorisations of two programs in flight would block each other for ever on the thread pool of two cores.
jax.config.update("jax_cpu_enable_async_dispatch", False)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
# Tests repeat programs that are compiled already; what took a while is kept for the next time.
CACHE = {
    "jax_compilation_cache_dir": str(Path(__file__).parents[1] / ".pytest_cache" / "xla"),
    "jax_persistent_cache_min_compile_time_secs": 0.2,
}


def configure(name, value):
    jax.config.update(name, value)
    # For the processes that tests start.
    os.environ[name.upper()] = str(value)


for name, value in CACHE.items():
    configure(name, value)


def pytest_configure(config):
    """Quick tests spend their time on compiling and do it less carefully; slow ones run what users run."""
    if "not slow" in config.getoption("markexpr"):
        configure("jax_disable_most_optimizations", True)


# Not the parts that must refuse bad types themselves, with a sentence.
CHECKED = (
    "exact",
    "learn.sampler",
    "learn.estimators",
    "learn.npg",
    "learn.inspection",
    "solvers",
    "diagnostics",
    "features",
    "scores",
    "kappa",
    "episodes",
    "policy",
)
install_import_hook([f"rampup.{name}" for name in CHECKED], "beartype.beartype")

# Examples take as long as compiling does, and a failure must be found again by whoever looks next.
settings.register_profile("rampup", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("rampup")


@pytest.fixture
def called(monkeypatch, capsys):
    """Call the command line in this process, which has JAX already; return exit code, output and complaints."""
    from rampup.cli import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["rampup", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, *capsys.readouterr()

    return call


BROWSERS = "chromium", "chromium-browser", "google-chrome"


@pytest.fixture
def browser(tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with its driver here: run scripts/install_chromium.sh")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1280,900"):
        options.add_argument(f"--{argument}")
    options.add_argument(f"--user-data-dir={tmp_path / 'browser'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()
