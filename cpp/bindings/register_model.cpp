#include <pybind11/stl.h>

#include "bindings/bindings.hpp"
#include "model/residency.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

py::dict residency(const std::string& kernel, int item_bytes, int ordinal) {
    const bool csr = kernel == "csr_vector";
    if (!csr && kernel != "ell") throw std::invalid_argument("kernel '" + kernel + "' is not 'csr_vector' or 'ell'");
    const auto found = item_bytes == 4
                           ? (csr ? cuda::csr_vector_residency<float>(ordinal) : cuda::ell_residency<float>(ordinal))
                           : (csr ? cuda::csr_vector_residency<double>(ordinal) : cuda::ell_residency<double>(ordinal));
    return py::dict(py::arg("block_size") = found.block_size,
                    py::arg("blocks_per_processor") = found.blocks_per_processor);
}

}  // namespace

void register_model(py::module_& module) {
    module.def("residency", &residency, py::arg("kernel"), py::arg("item_bytes"), py::arg("ordinal"),
               "Threads per block, and blocks that a multiprocessor holds at once, of 'csr_vector' or 'ell'.");
}

}  // namespace spmvgpu
