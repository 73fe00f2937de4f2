"""A machine without a GPU: everything imports, runs on the CPU, and says clearly what is missing."""

import os
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


@pytest.mark.parametrize("module", ["cupy", "torch", "matplotlib", "scipy.sparse.csgraph", "tqdm"])
def test_import_stays_small(module):
    """Optional libraries are touched only when they are used."""
    plain = "import sys, numpy, scipy.sparse, scipy.sparse.linalg; before = set(sys.modules);"
    done = run_python(f"{plain} import spmvgpu; print({module!r} in set(sys.modules) - before)")
    assert done.stdout.strip() == "False"


def test_info_does_not_wait_for_scipy():
    done = run_python(
        """
        import sys
        from spmvgpu.cli import main
        main(["info"])
        print("with scipy:", "scipy" in sys.modules)
        """
    )
    assert done.stdout.strip().endswith("with scipy: False")


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


FORK = """
    import os, signal, warnings
    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg

    warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
    x = np.ones(300_000)

    def product():
        return sg.aslinearoperator(sp.eye_array(x.size, format="csr"), device="cpu") @ x

    if {used}:
        product()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if (product() == 1).all() else 1)
    assert os.waitpid(child, 0)[1] == 0, "the child failed, or hung until its alarm"
    assert (product() == 1).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("used", [False, True], ids=["before_a_product", "after_a_product"])
def test_fork(used):
    """multiprocessing forks by default on Linux: the child must not wait for threads it does not have."""
    run_python(FORK.format(used=used), **HIDDEN)
