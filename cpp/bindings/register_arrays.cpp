// Device vectors to and from libraries that are only known by their interchange protocols.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <functional>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/dlpack.hpp"
#include "bindings/value_types.hpp"
#include "core/array.hpp"
#include "core/passes/csr_operations.hpp"
#include "gpu/run.hpp"
#include "gpu/runtime.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

using Shape = py::typing::Tuple<std::int64_t, py::ellipsis>;

// Takes over the tensor in a DLPack capsule, and keeps it alive as long as the view lives.
class DlpackView {
public:
    explicit DlpackView(const py::capsule& capsule) {
        auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kName));
        if (managed == nullptr) throw py::error_already_set();
        PyCapsule_SetName(capsule.ptr(), dlpack::kUsedName);
        tensor_ = {managed, [](dlpack::ManagedTensor* t) {
                       if (t->deleter) t->deleter(t);
                   }};
    }

    const dlpack::Tensor& tensor() const { return tensor_->tensor; }

    std::vector<std::int64_t> shape() const { return {tensor().shape, tensor().shape + tensor().ndim}; }

    std::vector<std::int64_t> strides() const {  // in elements
        if (tensor().strides != nullptr) return {tensor().strides, tensor().strides + tensor().ndim};
        std::vector<std::int64_t> packed(tensor().ndim, 1);
        for (int i = tensor().ndim - 1; i > 0; --i) packed[i - 1] = packed[i] * tensor().shape[i];
        return packed;
    }

    bool contiguous() const {
        if (tensor().strides == nullptr) return true;
        std::int64_t expected = 1;
        for (int i = tensor().ndim - 1; i >= 0; --i) {
            if (tensor().shape[i] != 1 && tensor().strides[i] != expected) return false;
            expected *= tensor().shape[i];
        }
        return true;
    }

    std::uintptr_t pointer() const { return reinterpret_cast<std::uintptr_t>(tensor().data) + tensor().byte_offset; }

private:
    std::shared_ptr<dlpack::ManagedTensor> tensor_;
};

// An array of real or complex numbers in C order on a CUDA device, for callers whose own library cannot be asked for
// one.
struct DeviceArray {
    std::vector<std::int64_t> shape;
    char kind;  // 'f' or 'c', as NumPy has it
    std::size_t item_bytes;
    Array<char> memory;

    DeviceArray(std::vector<std::int64_t> given, const py::dtype& dtype, int ordinal)
        : shape(std::move(given)),
          kind(dtype.kind()),
          item_bytes(dtype.itemsize()),
          memory(std::accumulate(shape.begin(), shape.end(), item_bytes, std::multiplies<>()), Device{ordinal}) {}

    std::uintptr_t pointer() const { return reinterpret_cast<std::uintptr_t>(memory.data()); }
};

void check_fits(const DeviceArray& array, const py::array& host) {
    const bool in_order = (host.flags() & py::array::c_style) != 0;
    if (!in_order || host.nbytes() != static_cast<py::ssize_t>(array.memory.bytes())) {
        throw std::invalid_argument("a host array of another size, or not contiguous");
    }
}

void upload(DeviceArray& array, const py::array& host) {
    check_fits(array, host);
    const void* const from = host.data();
    const GilRelease release;
    copy_bytes(array.memory.data(), array.memory.device(), from, {}, array.memory.bytes());
}

void download(const DeviceArray& array, py::array host) {
    check_fits(array, host);
    void* const to = host.mutable_data();
    const GilRelease release;
    copy_bytes(to, {}, array.memory.data(), array.memory.device(), array.memory.bytes());
}

void fetch(std::uintptr_t pointer, py::array host, int ordinal) {
    void* const to = host.mutable_data();
    const std::size_t bytes = host.nbytes();
    const GilRelease release;
    gpu::synchronize_device(ordinal);
    copy_bytes(to, {}, reinterpret_cast<const void*>(pointer), Device{ordinal}, bytes);
}

void copy_on_device(std::uintptr_t from, std::uintptr_t to, std::size_t bytes, int ordinal) {
    copy_bytes(reinterpret_cast<void*>(to), ordinal, reinterpret_cast<const void*>(from), ordinal, bytes);
}

std::tuple<std::int64_t, std::int64_t, std::int64_t> first_at_least(std::uintptr_t pointer, std::int64_t count,
                                                                    std::size_t item_bytes, std::int64_t wanted,
                                                                    int ordinal) {
    gpu::synchronize_device(ordinal);  // queued work on the numbers is done
    const auto search = [&]<class Number>(const Number* numbers) {
        const auto found = gpu::run(FirstAtLeast<Number>{numbers, count, wanted}, Device{ordinal});
        return std::tuple{found.place, found.before, found.there};
    };
    return item_bytes == sizeof(index_t) ? search(at<index_t>(pointer)) : search(at<std::int64_t>(pointer));
}

py::capsule export_dlpack(const DeviceArray& array) {
    struct Export {
        Array<char> memory;
        std::vector<std::int64_t> shape;
        dlpack::ManagedTensor managed;
    };
    auto* exported = new Export{array.memory, array.shape, {}};
    exported->managed.tensor = {
        exported->memory.data(),
        {dlpack::kCuda, array.memory.device().ordinal},
        static_cast<std::int32_t>(exported->shape.size()),
        {array.kind == 'c' ? dlpack::kComplex : dlpack::kFloat, static_cast<std::uint8_t>(8 * array.item_bytes), 1},
        exported->shape.data(),
        nullptr,
        0};
    exported->managed.context = exported;
    exported->managed.deleter = [](dlpack::ManagedTensor* t) { delete static_cast<Export*>(t->context); };
    return py::capsule(&exported->managed, dlpack::kName, [](PyObject* capsule) {
        // A capsule that still has its first name holds a tensor that was never taken.
        if (!PyCapsule_IsValid(capsule, dlpack::kName)) return;
        auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, dlpack::kName));
        managed->deleter(managed);
    });
}

py::dict cuda_array_interface(const DeviceArray& array) {
    return py::dict(py::arg("shape") = py::tuple(py::cast(array.shape)),
                    py::arg("typestr") = std::string("<") + array.kind + std::to_string(array.item_bytes),
                    py::arg("data") = py::make_tuple(array.pointer(), false), py::arg("strides") = py::none(),
                    py::arg("version") = 3, py::arg("stream") = 1);
}

}  // namespace

void register_arrays(py::module_& module) {
    py::class_<DlpackView>(module, "DlpackView", "A tensor taken over from a DLPack capsule.")
        .def(py::init<py::capsule>(), py::arg("capsule"))
        .def_property_readonly("pointer", &DlpackView::pointer)
        .def_property_readonly("shape", &DlpackView::shape)
        .def_property_readonly("contiguous", &DlpackView::contiguous)
        .def_property_readonly("strides", &DlpackView::strides)
        .def_property_readonly("type_code", [](const DlpackView& v) { return int(v.tensor().dtype.code); })
        .def_property_readonly("type_bits", [](const DlpackView& v) { return int(v.tensor().dtype.bits); })
        .def_property_readonly("device_type", [](const DlpackView& v) { return int(v.tensor().device.type); })
        .def_property_readonly("device_id", [](const DlpackView& v) { return int(v.tensor().device.id); });

    py::class_<DeviceArray>(module, "DeviceArray",
                            "An array of numbers on a CUDA device, for exchange with other libraries.")
        .def(py::init<std::vector<std::int64_t>, const py::dtype&, int>(), py::arg("shape"), py::arg("dtype"),
             py::arg("ordinal"))
        .def("upload", &upload, py::arg("host"), "Copy a NumPy array into it.")
        .def("download", &download, py::arg("host"), "Copy it into a NumPy array.")
        .def_property_readonly("pointer", &DeviceArray::pointer)
        .def_property_readonly("shape", [](const DeviceArray& v) { return Shape(py::cast(v.shape)); })
        .def_property_readonly("__cuda_array_interface__", &cuda_array_interface)
        .def("__dlpack__", [](const DeviceArray& v, const py::kwargs&) { return export_dlpack(v); })
        .def("__dlpack_device__",
             [](const DeviceArray& v) { return py::make_tuple(int(dlpack::kCuda), v.memory.device().ordinal); });

    module.def("fetch", &fetch, py::arg("pointer"), py::arg("host"), py::arg("ordinal"),
               "Copy what lies at an address on a device into a contiguous NumPy array, once all work there is done.");
    module.def(
        "first_at_least", &first_at_least, py::arg("pointer"), py::arg("count"), py::arg("item_bytes"),
        py::arg("wanted"), py::arg("ordinal"), py::call_guard<GilRelease>(),
        "(place, number before, number there): where ascending integers of 4 or 8 bytes at an address on a device "
        "first are at least as large as one, or their count. Zeros for numbers that do not exist.");
    module.def("copy_on_device", &copy_on_device, py::arg("source"), py::arg("to"), py::arg("bytes"),
               py::arg("ordinal"), py::call_guard<GilRelease>(),
               "Copy between addresses on a device; complete when it returns.");
}

}  // namespace spmvgpu
