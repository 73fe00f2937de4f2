#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>
#include <string>

#include "bindings/bindings.hpp"
#include "bindings/features.hpp"
#include "core/passes/host_passes.hpp"
#include "formats/papers/hyb/build.hpp"
#include "gpu/residency.hpp"
#include "planning/features.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using Indices = py::array_t<index_t, py::array::c_style>;

}  // namespace

// Visits every feature with its name.
template <class F, class Visit>
static void each_feature(F& features, Visit&& visit) {
    visit("rows", features.rows);
    visit("cols", features.cols);
    visit("nnz", features.nnz);
    visit("empty_rows", features.empty_rows);
    visit("longest", features.longest);
    visit("mean", features.mean);
    visit("deviation", features.deviation);
    visit("warp_steps", features.warp_steps);
    visit("warp_sectors", features.warp_sectors);
    visit("block_sectors", features.block_sectors);
    visit("run_sectors", features.run_sectors);
    visit("long_run_sectors", features.long_run_sectors);
    visit("diagonals", features.diagonals);
    visit("different_rows", features.different_rows);
    visit("different_values", features.different_values);
}

py::dict to_dict(const Features& found) {
    py::dict named;
    each_feature(found, [&](const char* name, const auto& value) { named[name] = py::cast(value); });
    return named;
}

Features from_dict(const py::dict& given) {
    Features features;
    each_feature(features, [&](const char* name, auto& value) {
        value = given[name].cast<std::remove_reference_t<decltype(value)>>();
    });
    return features;
}

namespace {

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
    module.def("hyb_width", &hyb_width, py::arg("indptr").noconvert(), "Width of the ELL part that hyb chooses.");
    module.def("padding_is_allowed", py::vectorize(&allowed_by_default), py::arg("slots"), py::arg("entries"),
               "Whether padded formats take so many slots for so many entries, unless told otherwise.");
    module.def("residency", &residency, py::arg("kernel"), py::arg("item_bytes"), py::arg("ordinal"),
               "Threads per block, and blocks that a multiprocessor holds at once, of 'csr_vector' or 'ell'.");
}

}  // namespace spmvgpu
