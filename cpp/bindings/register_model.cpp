#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>
#include <string>

#include "bindings/bindings.hpp"
#include "core/passes/host_passes.hpp"
#include "formats/papers/hyb/build.hpp"
#include "gpu/residency.hpp"
#include "planning/features.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using Indices = py::array_t<index_t, py::array::c_style>;

std::map<std::string, int> residency(const std::string& kernel, int item_bytes, int ordinal) {
    const bool csr = kernel == "csr_vector";
    if (!csr && kernel != "ell") throw std::invalid_argument("kernel '" + kernel + "' is not 'csr_vector' or 'ell'");
    const auto found = item_bytes == 4
                           ? (csr ? gpu::csr_vector_residency<float>(ordinal) : gpu::ell_residency<float>(ordinal))
                           : (csr ? gpu::csr_vector_residency<double>(ordinal) : gpu::ell_residency<double>(ordinal));
    return {{"block_size", found.block_size}, {"blocks_per_processor", found.blocks_per_processor}};
}

index_t hyb_width(const Indices& indptr) {
    if (indptr.size() < 1) throw std::invalid_argument("inconsistent CSR arrays");
    HostPasses passes;
    return choose_ell_width(passes, static_cast<index_t>(indptr.size() - 1), indptr.data());
}

bool allowed_by_default(std::int64_t slots, std::int64_t entries) {
    return padding_is_allowed(slots, entries, PaddedTuning{}.max_padding);
}

}  // namespace

void register_model(py::module_& module) {
    py::class_<Features>(module, "Features", "Features of a matrix for the performance model.")
        .def_readonly("rows", &Features::rows)
        .def_readonly("cols", &Features::cols)
        .def_readonly("nnz", &Features::nnz)
        .def_readonly("empty_rows", &Features::empty_rows)
        .def_readonly("longest", &Features::longest)
        .def_readonly("mean", &Features::mean)
        .def_readonly("deviation", &Features::deviation)
        .def_readonly("warp_steps", &Features::warp_steps)
        .def_readonly("longer", &Features::longer)
        .def_readonly("run_sectors", &Features::run_sectors)
        .def_readonly("long_run_sectors", &Features::long_run_sectors)
        .def_readonly("node_rows", &Features::node_rows)
        .def_readonly("diagonals", &Features::diagonals)
        .def_readonly("different_rows", &Features::different_rows)
        .def_readonly("different_values", &Features::different_values);
    module.def("hyb_width", &hyb_width, py::arg("indptr").noconvert(), "Width of the ELL part that hyb chooses.");
    module.def("padding_is_allowed", py::vectorize(&allowed_by_default), py::arg("slots"), py::arg("entries"),
               "True if padded formats accept this many slots for this many entries by default.");
    module.def("residency", &residency, py::arg("kernel"), py::arg("item_bytes"), py::arg("ordinal"),
               "Threads per block, and blocks that a multiprocessor holds at once, of 'csr_vector' or 'ell'.");
}

}  // namespace spmvgpu
