"""A machine without a GPU: everything imports, runs on the CPU, and says clearly what is missing."""

import json
import sys
import warnings

import numpy as np
import pytest

import spmvgpu as sg
from internals import let_cuda_fail
from spmvgpu.cli import main
from support import run_python

HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "SPMVGPU_DEVICE": None}


def test_gpu_tests_are_run(gpu_tests_left_out):
    """One visible skip in place of thousands."""
    if gpu_tests_left_out:
        pytest.skip(
            f"this machine has no CUDA device: {gpu_tests_left_out} tests that need one were left out, "
            "and every test over all devices was run on the CPU only"
        )


def test_automatic_device_is_the_cpu():
    run_python(
        """
        import numpy as np
        import spmvgpu as sg
        assert [info.name for info in sg.devices()] == ["cpu"]
        op = sg.aslinearoperator(np.eye(4))
        assert op.device == "cpu"
        assert (op @ np.arange(4.0)).tolist() == [0, 1, 2, 3]
        assert "cpu" in op.explain()
        """,
        **HIDDEN,
    )


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:1"])
def test_asking_for_cuda_raises_and_helps(device):
    output = run_python(
        f"""
        import numpy as np
        import spmvgpu as sg
        try:
            sg.aslinearoperator(np.eye(4), device={device!r})
        except sg.CudaError as error:
            print(error)
        print("still usable:", (sg.aslinearoperator(np.eye(4)) @ np.ones(4)).sum())
        """,
        **HIDDEN,
    ).stdout
    message, last = output.rsplit("still usable:", 1)
    assert "cuda" in message.lower()
    assert 'device="cpu"' in message.replace("'", '"')
    assert float(last) == 4.0


def test_environment_asking_for_cuda_is_not_ignored():
    done = run_python(
        "import numpy as np, spmvgpu as sg; sg.aslinearoperator(np.eye(4))",
        check=False,
        CUDA_VISIBLE_DEVICES="",
        SPMVGPU_DEVICE="cuda",
    )
    assert done.returncode != 0
    assert "CudaError" in done.stderr


INSUFFICIENT = "cudaGetDeviceCount failed: cudaErrorInsufficientDriver (35), too old"
MISMATCH = "cudaGetDeviceCount failed: cudaErrorSystemDriverMismatch (803), mismatch"
TOO_OLD = (
    f"{INSUFFICIENT}; the NVIDIA driver is of CUDA 12.2 (driver 535.104.05), and this build needs one of "
    "CUDA 13 (driver 580 or later): install a newer driver, or build spmvgpu with the CUDA Toolkit 12"
)
VERY_OLD = (
    f"{INSUFFICIENT}; the NVIDIA driver is of CUDA 11.8, and this build needs one of CUDA 12 (driver 525 or "
    "later): install a newer driver"
)
OTHER = (
    f"{MISMATCH}; the NVIDIA driver is of CUDA 13.1, and this build needs one of CUDA 13 (driver 580 or "
    "later)"
)


@pytest.fixture
def too_old(monkeypatch):
    let_cuda_fail(monkeypatch, INSUFFICIENT, 12020, 13000, "535.104.05")


@pytest.mark.parametrize(
    ("error", "driver", "needed", "name", "says"),
    [
        (INSUFFICIENT, 12020, 13000, "535.104.05", TOO_OLD),
        (INSUFFICIENT, 11080, 12090, None, VERY_OLD),
        (MISMATCH, 13010, 13000, None, OTHER),
    ],
    ids=["old", "very old", "mismatch"],
)
def test_an_error_of_cuda_is_told(monkeypatch, error, driver, needed, name, says):
    let_cuda_fail(monkeypatch, error, driver, needed, name)
    with pytest.raises(sg.CudaError) as refused:
        sg.aslinearoperator(np.eye(4), device="cuda")
    assert str(refused.value) == f"device='cuda': {says}; or give device='cpu'"
    with pytest.warns(UserWarning, match="operators are on the CPU") as warned:
        op = sg.aslinearoperator(np.eye(4))
    assert says in str(warned[0].message)
    assert op.device == "cpu"


def test_an_error_of_cuda_is_warned_of_once(too_old):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        sg.aslinearoperator(np.eye(4), device="cpu")
        assert not warned
        for _ in range(3):
            sg.aslinearoperator(np.eye(4))
            sg.linalg.solve(np.eye(4), np.ones(4))
    assert len(warned) == 1


def test_reports_have_the_error_of_cuda(too_old, capsys):
    sg.show_versions()
    assert f"cuda:0       not usable: {TOO_OLD}" in capsys.readouterr().out.splitlines()
    assert main(["info"]) == 0
    assert f"cuda not usable: {TOO_OLD}" in " ".join(capsys.readouterr().out.split())
    assert main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cuda_error"] == TOO_OLD


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc/self/maps")
@pytest.mark.parametrize(
    "statement", ["import spmvgpu", "import spmvgpu as sg; sg.formats(); sg.build_info()"]
)
def test_import_makes_no_cuda_call(statement):
    """The first CUDA call loads the driver library; import must not have done so."""
    done = run_python(f"{statement}; print('libcuda.so' in open('/proc/self/maps').read())")
    assert done.stdout.strip() == "False"


def test_import_leaves_the_choice_of_devices_open(cuda_device):
    """The driver reads CUDA_VISIBLE_DEVICES at its first call: setting it after the import still works."""
    run_python(
        """
        import os
        import spmvgpu as sg
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        assert [info.name for info in sg.devices()] == ["cpu"]
        """
    )
