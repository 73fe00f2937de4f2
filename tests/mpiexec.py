"""Running Python on several ranks, whichever MPI there is; tests that need it skip where there is none."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from conftest import TURN_IS_HELD

TESTS = Path(__file__).parent

# Ranks that wait give their core to others: there are more of them than cores. Those that are ignored belong
# to other implementations. Open MPI starts nothing as root unless it is told twice.
_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
}
_ON_HOSTS = {"PRTE_MCA_plm_ssh_agent": "/run/on", "OMPI_MCA_plm_rsh_agent": "/run/on"}

_NAMESPACES = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork"]
_NAMESPACES += ["--mount-proc", "--kill-child"]


@cache
def _launcher() -> str | None:
    """The program `mpiexec`: the one beside this Python, as the wheels on PyPI install it, or on PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


@cache
def why_not() -> str:
    """Why nothing can be run on several ranks; empty if it can."""
    if find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    if _launcher() is None:
        return "there is no mpiexec"
    done = run_ranks(2, "-c", "from mpi4py import MPI; print(MPI.COMM_WORLD.size)", timeout=60)
    if done.returncode != 0:
        return f"mpiexec does not run: {done.stderr.strip()[-500:]}"
    if set(done.stdout.split()) != {"2"}:
        return "mpiexec and mpi4py belong to different installations of MPI"
    return ""


@cache
def why_no_hosts() -> str:
    """Why ranks cannot be on several hosts that are network namespaces; empty if they can."""
    if missing := [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]:
        return f"hosts in network namespaces need {', '.join(missing)}"
    options = {"capture_output": True, "text": True, "check": False}
    if "Open MPI" not in subprocess.run([_launcher(), "--version"], **options).stdout:
        return "hosts in network namespaces need Open MPI"
    parts = "mount -t tmpfs tmpfs /run && ip link add type veth && ip link add type bridge"
    done = subprocess.run([*_NAMESPACES, "sh", "-c", parts], **options)
    return f"network namespaces cannot be made: {done.stderr.strip()}" if done.returncode else ""


def need_ranks(ranks=1) -> None:
    """Skip the calling test where there is no MPI, or no several hosts for a tuple of ranks."""
    if reason := why_not() or (why_no_hosts() if isinstance(ranks, tuple) else ""):
        pytest.skip(reason)


def run_ranks(ranks, *arguments, timeout=600, **environment):
    """Run Python on several ranks; one that hangs is ended, and raises TimeoutError with what it printed.

    Parameters
    ----------
    ranks : int or tuple of int
        How many; a tuple has the number on each of several hosts, see `hosts.sh`.

    Returns
    -------
    subprocess.CompletedProcess
        With `stdout` and `stderr` of all ranks as text.
    """
    variables = {**os.environ, **_ENVIRONMENT, TURN_IS_HELD: "1", **environment}
    variables.pop("PYTEST_ADDOPTS", None)
    command = [_launcher(), "-n", str(ranks), sys.executable, *map(str, arguments)]
    if isinstance(ranks, tuple):
        variables |= _ON_HOSTS
        hosts = ",".join(f"10.0.0.{number}:{count}" for number, count in enumerate(ranks, 1))
        command[1:3] = ["--host", hosts, "--map-by", "slot"]
        command = [*_NAMESPACES, TESTS / "hosts.sh", str(len(ranks)), *command]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=variables, text=True, start_new_session=True, **pipes) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.terminate()  # upon which mpiexec ends its ranks
            try:
                stdout, stderr = process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                stdout, stderr = process.communicate()
            message = f"{ranks} ranks hang after {timeout} s\n{stdout}\n{stderr}"
            raise TimeoutError(message) from None
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
