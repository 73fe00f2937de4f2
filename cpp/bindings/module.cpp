#include <exception>

#include "bindings/bindings.hpp"
#include "core/errors.hpp"

namespace py = pybind11;

PYBIND11_MODULE(_core, module) {
    module.doc() = "C++/CUDA core of spmvgpu. Use the package's public functions, not this module.";
    py::register_exception<spmvgpu::FormatError>(module, "FormatError", PyExc_ValueError);
    py::register_exception<spmvgpu::CudaError>(module, "CudaError", PyExc_RuntimeError);
    py::register_exception_translator([](std::exception_ptr pointer) {
        try {
            std::rethrow_exception(pointer);
        } catch (const spmvgpu::OutOfMemory& error) {
            py::set_error(PyExc_MemoryError, error.what());
        } catch (const spmvgpu::UnknownOption& error) {
            py::set_error(PyExc_TypeError, error.what());
        }
    });
    spmvgpu::register_runtime(module);
    spmvgpu::register_arrays(module);
    spmvgpu::register_canonical(module);
    spmvgpu::register_matrix(module);
    spmvgpu::register_model(module);
    spmvgpu::register_parts(module);
    spmvgpu::register_distributed(module);
    spmvgpu::register_solvers(module);
}
