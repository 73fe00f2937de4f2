"""A machine without a GPU: everything imports, runs on the CPU, and says clearly what is missing."""

import sys

import pytest

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
