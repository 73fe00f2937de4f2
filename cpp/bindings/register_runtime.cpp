#include <pybind11/stl.h>

#include "bindings/bindings.hpp"
#include "bindings/build_info.hpp"
#include "core/environment.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "core/system.hpp"
#include "gpu/runtime.hpp"
#include "gpu/timing.hpp"
#include "matrix/matrix.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

py::object allowed_values(const OptionInfo& option) {
    if (auto* range = std::get_if<Range>(&option.allowed)) return py::make_tuple(range->low, range->high);
    if (auto* names = std::get_if<Names>(&option.allowed)) return py::cast(*names);
    if (auto* count = std::get_if<CountOr>(&option.allowed)) return py::make_tuple(0, count->highest, count->name);
    return py::cast(std::get<OneOf>(option.allowed));
}

py::list describe_formats() {
    py::list formats;
    for (const auto& format : list_formats()) {
        py::list options;
        for (const auto& option : format.options) {
            options.append(py::dict(py::arg("name") = option.name, py::arg("default") = option.value,
                                    py::arg("allowed") = allowed_values(option)));
        }
        formats.append(py::dict(py::arg("name") = format.name, py::arg("options") = options,
                                py::arg("candidates") = format.candidates, py::arg("traits") = format.traits));
    }
    return formats;
}

py::dict device_properties(int ordinal) {
    if (ordinal == Device::kCpu) {
        return py::dict(py::arg("model") = "CPU", py::arg("multiprocessors") = max_threads(),
                        py::arg("memory_free") = free_host_memory(), py::arg("memory_total") = system::total_memory());
    }
    const auto& properties = gpu::properties(ordinal);
    const auto memory = gpu::memory(ordinal);
    return py::dict(py::arg("model") = properties.model, py::arg("multiprocessors") = properties.multiprocessors,
                    py::arg("memory_free") = memory.free, py::arg("memory_idle") = memory.idle,
                    py::arg("memory_total") = memory.total, py::arg("l2_bytes") = properties.l2_bytes,
                    py::arg("clock") = properties.clock, py::arg("memory_bandwidth") = properties.memory_bandwidth,
                    py::arg("compute_capability") = py::make_tuple(properties.major, properties.minor));
}

py::dict driver() {
    const auto driver = gpu::driver();
    return py::dict(py::arg("version") = driver.version, py::arg("needed") = driver.needed,
                    py::arg("error") = driver.error);
}

py::dict build_info() {
    return py::dict(py::arg("version") = kVersion, py::arg("cuda") = kHasCuda, py::arg("cuda_reason") = kCudaReason,
                    py::arg("cuda_version") = gpu::version(), py::arg("cuda_architectures") = kCudaArchitectures,
                    py::arg("compiler") = kCompiler);
}

}  // namespace

void register_runtime(py::module_& module) {
    py::class_<Traits>(module, "Traits", "Properties of a format for all matrices.")
        .def(py::init<>())
        .def_readonly("needs_symmetry", &Traits::needs_symmetry)
        .def_readonly("reads_whole_diagonals", &Traits::reads_whole_diagonals)
        .def_readonly("reads_all_of_x", &Traits::reads_all_of_x)
        .def_readonly("gathers_x_first", &Traits::gathers_x_first)
        .def_readonly("only_if_asked", &Traits::only_if_asked)
        .def_readonly("needs_rows_that_repeat", &Traits::needs_rows_that_repeat)
        .def_readonly("needs_few_values", &Traits::needs_few_values);
    module.def("describe_formats", &describe_formats, "Names, options, tuning candidates and traits of all formats.");
    module.def("build_info", &build_info, "How the extension was built.");
    module.def("device_count", &gpu::device_count, "Usable CUDA devices; 0 without a driver.");
    module.def("driver", &driver, "CUDA versions of the driver and of this build, and the error of listing devices.");
    module.def("device_properties", &device_properties, py::arg("ordinal"), "Properties of a device; -1 is the CPU.");
    module.def("pci_bus_id", &gpu::pci_bus_id, py::arg("ordinal"), "Which of the GPUs of a host a device is.");
    module.def("release_idle_memory", &gpu::release_idle_memory, py::arg("ordinal"),
               "Give a GPU the memory that is kept for its next arrays.");
    module.def("max_threads", &max_threads, "Threads that the calling thread's loops may use.");
    module.def("threads_of_environment", &threads_of_environment,
               "Threads that the process takes by the environment; None if that says nothing.");
    module.def("set_thread_limit", &set_thread_limit, py::arg("threads"),
               "Bounds the threads of the calling thread's loops; gives the bound before.");
    module.def(
        "device_of", [](std::uintptr_t pointer) { return gpu::device_of(reinterpret_cast<void*>(pointer)).ordinal; },
        py::arg("pointer"), "CUDA device that a pointer lives on, or -1.");
    module.def(
        "synchronize",
        [](std::uintptr_t stream, int ordinal) { gpu::synchronize(reinterpret_cast<Stream>(stream), ordinal); },
        py::arg("stream"), py::arg("ordinal"), py::call_guard<GilRelease>(), "Wait for the work queued on a stream.");
}

}  // namespace spmvgpu
