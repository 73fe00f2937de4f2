#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings/bindings.hpp"
#include "bindings/features.hpp"
#include "core/parallel.hpp"
#include "cuda/residency.hpp"
#include "formats/hyb_build.hpp"
#include "model/features.hpp"
#include "passes/host_passes.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using Indices = py::array_t<index_t, py::array::c_style>;

}  // namespace

py::dict to_dict(const Features& found) {
    using py::arg;
    return py::dict(arg("rows") = found.rows, arg("cols") = found.cols, arg("nnz") = found.nnz,
                    arg("empty_rows") = found.empty_rows, arg("longest") = found.longest, arg("mean") = found.mean,
                    arg("deviation") = found.deviation, arg("warp_steps") = found.warp_steps,
                    arg("warp_sectors") = found.warp_sectors, arg("block_sectors") = found.block_sectors,
                    arg("run_sectors") = found.run_sectors, arg("long_run_sectors") = found.long_run_sectors,
                    arg("diagonals") = found.diagonals);
}

namespace {

py::dict features(const Indices& indptr, const Indices& indices, index_t cols, int item_bytes) {
    if (indptr.size() < 1 || indptr.data()[indptr.size() - 1] != indices.size()) {
        throw std::invalid_argument("inconsistent CSR arrays");
    }
    Features found;
    {
        const GilRelease release;
        found =
            extract_features(static_cast<index_t>(indptr.size() - 1), cols, indptr.data(), indices.data(), item_bytes);
    }
    return to_dict(found);
}

py::dict residency(const std::string& kernel, int item_bytes, int ordinal) {
    const bool csr = kernel == "csr_vector";
    if (!csr && kernel != "ell") throw std::invalid_argument("kernel '" + kernel + "' is not 'csr_vector' or 'ell'");
    const auto found = item_bytes == 4
                           ? (csr ? cuda::csr_vector_residency<float>(ordinal) : cuda::ell_residency<float>(ordinal))
                           : (csr ? cuda::csr_vector_residency<double>(ordinal) : cuda::ell_residency<double>(ordinal));
    return py::dict(py::arg("block_size") = found.block_size,
                    py::arg("blocks_per_processor") = found.blocks_per_processor);
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
    module.def("features", &features, py::arg("indptr").noconvert(), py::arg("indices").noconvert(), py::arg("cols"),
               py::arg("item_bytes"), "What the performance model wants to know about a matrix.");
    module.def("hyb_width", &hyb_width, py::arg("indptr").noconvert(), "Width of the ELL part that hyb chooses.");
    module.def("padding_is_allowed", py::vectorize(&allowed_by_default), py::arg("slots"), py::arg("entries"),
               "Whether padded formats take so many slots for so many entries, unless told otherwise.");
    module.def("piece_count", &piece_count, py::arg("nanoseconds"),
               "Pieces that a loop of so much work for one thread is cut into on the CPU.");
    module.def("residency", &residency, py::arg("kernel"), py::arg("item_bytes"), py::arg("ordinal"),
               "Threads per block, and blocks that a multiprocessor holds at once, of 'csr_vector' or 'ell'.");
}

}  // namespace spmvgpu
