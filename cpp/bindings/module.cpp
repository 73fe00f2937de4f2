#include <pybind11/numpy.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "bindings/bindings.hpp"
#include "core/errors.hpp"
#include "core/interrupt.hpp"
#include "core/memory.hpp"

namespace py = pybind11;

namespace {

void set_memory_error(const std::exception& error) {
    const std::string free = std::to_string(spmvgpu::free_host_memory());
    py::set_error(PyExc_MemoryError, ("out of memory on cpu: " + free + " bytes free (" + error.what() + ")").c_str());
}

}  // namespace

PYBIND11_MODULE(_core, module, py::mod_gil_not_used()) {
    module.doc() =
        "The compiled core. Use the package's public functions, not this module.\n\n"
        "Addresses are of memory on the matrix's own device, streams are CUDA stream handles, and the number of a\n"
        "device, its ordinal, is -1 for the CPU.";
    // NumPy's functions are looked up now: pybind11 lets go of the interpreter's lock for that, and a daemon thread
    // that does so while the interpreter ends would take the process down with it.
    py::array_t<double>(0);
    py::register_exception<spmvgpu::FormatError>(module, "FormatError", PyExc_ValueError);
    py::register_exception<spmvgpu::CudaError>(module, "CudaError", PyExc_RuntimeError);
    py::register_exception_translator([](std::exception_ptr pointer) {
        try {
            std::rethrow_exception(pointer);
        } catch (const spmvgpu::OutOfMemory& error) {
            py::set_error(PyExc_MemoryError, error.what());
        } catch (const spmvgpu::UnknownOption& error) {
            py::set_error(PyExc_TypeError, error.what());
        } catch (const std::bad_alloc& error) {  // a small allocation: large ones say their size
            set_memory_error(error);
        } catch (const std::length_error& error) {
            set_memory_error(error);
        }
    });
    spmvgpu::set_interrupt_check(&spmvgpu::GilRelease::check_signals);
    // A class stands before what takes or gives it: signatures name it as Python does only then.
    spmvgpu::register_runtime(module);
    spmvgpu::register_guards(module);
    spmvgpu::register_arrays(module);
    spmvgpu::register_canonical(module);
    spmvgpu::register_model(module);
    spmvgpu::register_roofline(module);
    spmvgpu::register_matrix(module);
    spmvgpu::register_source(module);
    spmvgpu::register_planning(module);
    spmvgpu::register_multi(module);
    spmvgpu::register_ranks(module);
    spmvgpu::register_maps(module);
    spmvgpu::register_solvers(module);
    spmvgpu::register_subspaces(module);
    spmvgpu::register_multigrid(module);
    spmvgpu::register_xla(module);
}
