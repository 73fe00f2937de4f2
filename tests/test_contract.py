"""The contract of formats: what does not keep it does not compile, and what a plan says comes true."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import spmvgpu as sg
from battery import matrix
from internals import CPU, plan

CPP = Path(__file__).parents[1] / "cpp"
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
needs_a_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

TOY = """
struct Tuning {
    template <class Self, class Visit> static void each_param(Self&, Visit&&) {}
    static std::vector<Options> candidates();
};
struct Plan { Tuning tuning; Cost cost; };
template <class T>
struct Toy {
    static constexpr const char* kName = "toy";
    static constexpr Traits kTraits{.multiplies_panels = true, .multiplies_columns = true};
    using value_type = T;
    using Tuning = NAME::Tuning;
    using Plan = NAME::Plan;
    index_t rows = 0, cols = 0, nnz = 0;
    Array<T> values;
    Tuning tuning;
    template <class Self, class Visit> static void each_array(Self& self, Visit&& visit) {
        visit("values", self.values);
    }
    static Plan plan(const CsrMatrix<T>&, const Tuning&, const Target&);
    static Toy from_csr(const CsrMatrix<T>&, const Plan&);
    CsrMatrix<T> to_csr() const;
    std::size_t workspace_bytes() const;
    void spmv(const Product<T>&) const;
    void multiply_panel(const Product<T>&) const;
    void spmv_cuda(const Product<T>&, Stream) const;
    void multiply_columns_cuda(const Product<T>&, Stream) const;
};
"""

# What is forgotten, misspelt or wrong, as a replacement in the toy.
FAULTS = {
    "no_name": ('static constexpr const char* kName = "toy";', ""),
    "no_traits": (
        "static constexpr Traits kTraits{.multiplies_panels = true, .multiplies_columns = true};",
        "",
    ),
    "misspelt_plan": ("static Plan plan(", "static Plan paln("),
    "plan_without_cost": ("struct Plan { Tuning tuning; Cost cost; };", "struct Plan { Tuning tuning; };"),
    "plan_of_another_matrix": ("plan(const CsrMatrix<T>&", "plan(const CsrMatrix<char>&"),
    "from_csr_without_the_plan": (
        "from_csr(const CsrMatrix<T>&, const Plan&)",
        "from_csr(const CsrMatrix<T>&)",
    ),
    "to_csr_of_nothing": ("CsrMatrix<T> to_csr()", "void to_csr()"),
    "no_arrays": ("each_array", "every_array"),
    "no_candidates": ("static std::vector<Options> candidates();", ""),
    "misspelt_workspace": ("workspace_bytes", "work_space_bytes"),
    "no_kernel": ("void spmv_cuda(const Product<T>&, Stream) const;", ""),
    "product_that_changes_it": ("void spmv(const Product<T>&) const;", "void spmv(const Product<T>&);"),
    "misspelt_panel": ("multiply_panel(", "multiply_panels("),
    "panels_not_told_of": (".multiplies_panels = true", ".multiplies_panels = false"),
    "misspelt_columns": ("multiply_columns_cuda(", "multiply_column_cuda("),
    "columns_not_told_of": (".multiplies_columns = true", ".multiplies_columns = false"),
    "gathers_without_gathering": (".multiplies_panels", ".gathers_x_first = true, .multiplies_panels"),
}


def compile_cpp(tmp_path, source, *flags):
    file = tmp_path / "source.cpp"
    file.write_text(source)
    return subprocess.run(
        [COMPILER, "-std=c++20", f"-I{CPP}", *flags, str(file)], capture_output=True, text=True, check=False
    )


def toy(name, source, keeps):
    kept = f"FormatContract<{name}::Toy<double>>"
    body = source.replace("NAME", name)
    return f'namespace {name} {{ {body} }}\nstatic_assert({"" if keeps else "!"}{kept}, "{name}");\n'


@needs_a_compiler
def test_a_format_that_breaks_the_contract_is_refused(tmp_path):
    source = '#include "formats/format.hpp"\nnamespace spmvgpu {\n' + toy("sound", TOY, True)
    for name, (old, new) in FAULTS.items():
        assert old in TOY
        source += toy(name, TOY.replace(old, new), False)
    done = compile_cpp(tmp_path, source + "}\n", "-fsyntax-only")
    assert done.returncode == 0, done.stderr


@needs_a_compiler
def test_a_misspelt_trait_does_not_compile(tmp_path):
    source = '#include "formats/format.hpp"\nconstexpr spmvgpu::Traits kTraits{.%s = true};\n'
    assert compile_cpp(tmp_path, source % "needs_symmetry", "-fsyntax-only").returncode == 0
    done = compile_cpp(tmp_path, source % "need_symmetry", "-fsyntax-only")
    assert done.returncode != 0
    assert "need_symmetry" in done.stderr


@needs_a_compiler
def test_the_format_of_the_documentation_keeps_the_contract(tmp_path):
    page = (CPP.parent / "docs" / "adding-a-format.md").read_text()
    header, source, _kernel = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    folder = tmp_path / "formats" / "rowwise"
    folder.mkdir(parents=True)
    (folder / "layout.hpp").write_text("#pragma once\n" + header)
    source += "\nstatic_assert(spmvgpu::FormatContract<spmvgpu::Rowwise<double>>);\n"
    done = compile_cpp(
        tmp_path, source, f"-I{tmp_path}", "-fsyntax-only", "-fopenmp-simd", "-Wall", "-Wextra", "-Werror"
    )
    assert done.returncode == 0, done.stderr


@needs_a_compiler
def test_dispatch_finds_a_value_or_throws(tmp_path):
    source = """
#include <cstdio>
#include "core/dispatch.hpp"
int main(int argc, char**) {
    const auto show = []<int kValue>() { std::printf("%d\\n", kValue); };
    spmvgpu::dispatch<1, 2, 4>("lanes", 2 * argc, show);
    try {
        spmvgpu::dispatch<1, 2, 4>("lanes", 3 * argc, show);
    } catch (const std::logic_error& error) {
        std::puts(error.what());
    }
}
"""
    program = tmp_path / "program"
    done = compile_cpp(tmp_path, source, "-o", str(program))
    assert done.returncode == 0, done.stderr
    said = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    assert said == "2\nlanes is 3, and there is code for 1, 2, 4 only\n"


@pytest.mark.parametrize("name", ["tridiagonal", "power_law_rows", "empty_rows_every_other", "sym_blocks"])
@pytest.mark.parametrize("fmt", sg.formats())
def test_a_plan_says_what_is_built(fmt, name):
    A = matrix(name, np.dtype("float64"))
    try:
        planned = plan(A, fmt, CPU)
    except sg.FormatError:
        with pytest.raises(sg.FormatError):
            sg.aslinearoperator(A, format=fmt, device="cpu")
        return
    op = sg.aslinearoperator(A, format=fmt, device="cpu")
    assert planned.options == op.options
    assert planned.bytes == op.nbytes
    assert planned.launches == 0
    assert planned.padding >= 1
    most = round(A.nnz * planned.padding)
    assert most / 2 <= planned.slots <= most  # a symmetric matrix may be stored by half


@pytest.mark.parametrize("fmt", sg.formats())
def test_a_plan_for_a_gpu_needs_none(fmt):
    planned = plan(sg.gallery.poisson2d(60), fmt)
    assert planned.launches >= 1
    assert planned.gathers > 0
    assert planned.options.keys() == {option["name"] for option in sg.format_options(fmt)}
    # Numbers that stand for an automatic choice are gone.
    chosen = {name: value for name, value in planned.options.items() if name != "width"}
    assert not {name for name, value in chosen.items() if value in (0, "auto")}


def test_launches_and_gathers_of_a_plan():
    A, holes, long_row = np.eye(500), np.diag(np.arange(500) % 2), np.ones((1, 5000))
    assert plan(A, "csr").launches == plan(A, "sell").launches == plan(A, "coo").launches == 1
    assert plan(A, "csr_m").launches == 2  # one gathers
    by_host = plan(A, "csr_m", gather="host")
    assert (by_host.launches, by_host.gathers) == (1, 0)
    assert plan(holes, "coo").launches == 2  # one for the empty rows
    assert plan(long_row, "csr_b").launches == plan(long_row, "coo").launches == 2  # one merges
    assert plan(long_row, "csr").gathers == 5000
