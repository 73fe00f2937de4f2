// Products and Python functions as calls in programs that XLA compiles, for JAX.
//
// A call names its callee by a number. When XLA prepares a program, on whichever thread, the program gets a share in
// the callee and keeps it. A callee so lives as long as a program or Python may need it, and the list of all callees
// keeps none alive.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/matrices.hpp"
#include "bindings/xla_abi.hpp"
#include "core/parallel.hpp"
#include "core/system.hpp"
#include "gpu/runtime.hpp"
#include "matrix/any_matrix.hpp"
#include "matrix/matrix.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

enum class Platform { kCpu, kCuda };

struct Call {
    const xla::CallFrame& frame;
    Platform platform;
    Stream stream;  // null on the CPU

    const xla::Buffer& argument(int i) const { return buffer(frame.arguments, i); }
    const xla::Buffer& result(int i) const { return buffer(frame.results, i); }

private:
    static const xla::Buffer& buffer(const xla::Buffers& buffers, int i) {
        if (i >= buffers.size) throw std::invalid_argument("a call with too few arrays");
        return *buffers.items[i];
    }
};

class Callee;

struct Callees {
    std::mutex mutex;
    std::unordered_map<std::int64_t, std::weak_ptr<Callee>> by_number;
    // Programs may be stored, and run by another process, in which other numbers are in use: hence the random bits.
    std::int64_t next = std::int64_t(std::uint64_t{std::random_device{}()} << 31 | std::random_device{}() >> 1);
};

Callees& callees() {
    static auto* const all = new Callees;  // never deleted: callees may outlive what is deleted at exit
    return *all;
}

class Callee {
public:
    virtual ~Callee() {
        const std::lock_guard lock(callees().mutex);
        callees().by_number.erase(number_);
    }
    Callee(const Callee&) = delete;
    Callee& operator=(const Callee&) = delete;

    virtual void run(const Call& call) const = 0;
    std::int64_t number() const { return number_; }

    template <class Kind, class... Arguments>
    static std::shared_ptr<Callee> make(Arguments&&... arguments) {
        const std::shared_ptr<Callee> made = std::make_shared<Kind>(std::forward<Arguments>(arguments)...);
        const std::lock_guard lock(callees().mutex);
        made->number_ = callees().next++;
        callees().by_number[made->number_] = made;
        return made;
    }

    static std::shared_ptr<Callee> find(std::int64_t number) {
        const std::lock_guard lock(callees().mutex);
        const auto found = callees().by_number.find(number);
        std::shared_ptr<Callee> callee = found == callees().by_number.end() ? nullptr : found->second.lock();
        if (callee == nullptr) {
            throw std::runtime_error(
                "the program calls an operator of spmvgpu that this process does not have; compile the function again "
                "in the process that runs it");
        }
        return callee;
    }

protected:
    Callee() = default;

private:
    std::int64_t number_ = 0;
};

template <class T>
constexpr xla::DataType kTypeOf = xla::DataType::kF32;
template <>
constexpr xla::DataType kTypeOf<double> = xla::DataType::kF64;
template <>
constexpr xla::DataType kTypeOf<Complex<float>> = xla::DataType::kC64;
template <>
constexpr xla::DataType kTypeOf<Complex<double>> = xla::DataType::kC128;

// The product with one vector, or with the columns of an array in C order.
template <class T>
class CalledProduct : public Callee {
public:
    CalledProduct(std::shared_ptr<const AnyMatrix<T>> matrix, std::vector<int> ordinals)
        : matrix_(std::move(matrix)), ordinals_(std::move(ordinals)) {}

    void run(const Call& call) const override { multiply(*matrix_, call, call.argument(0)); }

protected:
    void multiply(const AnyMatrix<T>& matrix, const Call& call, const xla::Buffer& x) const {
        const xla::Buffer& y = call.result(0);
        const std::int64_t columns = columns_of(x, matrix.cols());
        if (columns != columns_of(y, matrix.rows())) throw std::invalid_argument("arrays of different widths");
        if (columns == 0 || matrix.rows() == 0) return;
        Product<T> product{static_cast<const T*>(x.data), static_cast<T*>(y.data)};
        if (columns > 1) {
            product.columns = static_cast<index_t>(columns);
            product.x_strides = product.y_strides = {columns, 1};
        }
        const ThreadLimit limit(matrix.max_threads);
        if (call.platform == Platform::kCpu) return matrix.spmv_host(product);
        const Device device = gpu::device_of(y.data);
        if (std::find(ordinals_.begin(), ordinals_.end(), device.ordinal) == ordinals_.end()) {
            throw std::invalid_argument("x is on '" + device.name() + "', but the operator is on '" +
                                        matrix.device().name() + "'; move one of them");
        }
        matrix.spmv(product, call.stream);
    }

    static std::int64_t columns_of(const xla::Buffer& array, index_t length) {
        const bool fits = array.type == kTypeOf<T> && (array.rank == 1 || array.rank == 2) && array.dims[0] == length;
        const std::int64_t columns = fits && array.rank == 2 ? array.dims[1] : 1;
        if (!fits || columns > std::numeric_limits<index_t>::max()) {
            throw std::invalid_argument("an array of another shape or type than a product has");
        }
        return columns;
    }

private:
    const std::shared_ptr<const AnyMatrix<T>> matrix_;
    const std::vector<int> ordinals_;  // ordinals of the GPUs that x and y may be on
};

// The product with a matrix whose values are the first argument.
template <class T>
class CalledProductOfValues : public CalledProduct<T> {
public:
    CalledProductOfValues(std::shared_ptr<const Matrix<T>> matrix, std::vector<int> ordinals)
        : CalledProduct<T>(matrix, std::move(ordinals)), matrix_(std::move(matrix)) {}

    void run(const Call& call) const override {
        const xla::Buffer& values = call.argument(0);
        if (this->columns_of(values, static_cast<index_t>(matrix_->nnz())) != 1) {
            throw std::invalid_argument("values in columns");
        }
        const auto matrix = Matrix<T>::with_values(matrix_, static_cast<const T*>(values.data));
        if (matrix == nullptr) throw std::logic_error("a format that stores values in another order");
        this->multiply(*matrix, call, call.argument(1));
    }

private:
    const std::shared_ptr<const Matrix<T>> matrix_;
};

// Programs may still run, or be about to, when the interpreter ends. Their threads would wait for its lock for ever,
// and so would the thread that ends XLA. Calls of Python functions therefore end first, and no new ones begin.
class PythonCall {
public:
    PythonCall() {
        const std::lock_guard lock(state().mutex);
        if (state().is_over) throw std::runtime_error("the interpreter is exiting");
        ++state().running;
    }
    ~PythonCall() {
        const std::lock_guard lock(state().mutex);
        if (--state().running == 0) state().ended.notify_all();
    }
    PythonCall(const PythonCall&) = delete;
    PythonCall& operator=(const PythonCall&) = delete;

    static void end_all() {
        std::unique_lock lock(state().mutex);
        state().is_over = true;
        state().ended.wait(lock, [] { return state().running == 0; });
    }

    static bool are_over() {
        const std::lock_guard lock(state().mutex);
        return state().is_over;
    }

private:
    struct State {
        std::mutex mutex;
        std::condition_variable ended;
        int running = 0;
        bool is_over = false;
    };
    static State& state() {
        static auto* all = new State;  // never deleted, as calls may outlive what is deleted at exit
        [[maybe_unused]] static const bool fork_handler = system::call_after_fork([] { all = new State; });
        return *all;
    }
};

// A function of the addresses of all arguments and results, in this order, and of the stream.
class CalledFunction : public Callee {
public:
    explicit CalledFunction(const py::object& function)
        : function_(py::object(function).release().ptr(), [](PyObject* owned) {
              if (!PythonCall::are_over()) with_gil([&] { Py_DECREF(owned); });
          }) {}

    // XLA's threads do not hold the interpreter's lock, and whoever holds it does not wait for them: JAX gives it away
    // first.
    void run(const Call& call) const override {
        const PythonCall running;
        std::string failed;
        with_gil([&] {
            try {
                py::list addresses;
                for (const auto* buffers : {&call.frame.arguments, &call.frame.results}) {
                    for (std::int64_t i = 0; i < buffers->size; ++i) {
                        addresses.append(reinterpret_cast<std::uintptr_t>(buffers->items[i]->data));
                    }
                }
                call_python(py::reinterpret_borrow<py::object>(function_.get()), addresses,
                            reinterpret_cast<std::uintptr_t>(call.stream));
            } catch (py::error_already_set& error) {
                failed = error.what();
                // The message ends with the place in the package.
                failed.resize(std::min(failed.find("\n\nAt:\n"), failed.size()));
            }
        });
        if (!failed.empty()) throw std::runtime_error(failed);
    }

private:
    // Calls something with the interpreter's lock, in a thread that may hold it already.
    template <class Work>
    static void with_gil(Work&& work) {
        wait_if_ended([&] {
            const PyGILState_STATE state = PyGILState_Ensure();
            work();
            PyGILState_Release(state);
        });
    }

    const std::shared_ptr<PyObject> function_;
};

using Share = std::shared_ptr<Callee>;

xla::Error* error_of(const xla::CallFrame& frame, xla::ErrorCode code, const char* message) {
    xla::ErrorArguments arguments{{sizeof(arguments), nullptr}, message, code};
    return frame.api->make_error(&arguments);
}

void check(xla::Error* error, const char* what) {
    if (error != nullptr) throw std::runtime_error(std::string("XLA cannot ") + what);
}

std::int64_t number_of(const xla::Attributes& attributes) {
    for (std::int64_t i = 0; i < attributes.size; ++i) {
        const std::string_view name(attributes.names[i]->data, attributes.names[i]->size);
        if (name != "callee" || attributes.types[i] != xla::AttributeType::kScalar) continue;
        const auto& scalar = *static_cast<const xla::Scalar*>(attributes.items[i]);
        if (scalar.type == xla::DataType::kS64) return *static_cast<const std::int64_t*>(scalar.value);
    }
    throw std::invalid_argument("a call without the number of its callee");
}

// The CPU and GPUs have a list of types each, in a library of their own.
template <Platform kPlatform>
xla::TypeId type_of_share{};
xla::TypeInfo info_of_share{{sizeof(xla::TypeInfo), nullptr}, [](void* share) { delete static_cast<Share*>(share); }};

template <Platform kPlatform>
xla::StateArguments state_arguments(const xla::CallFrame& frame, void* state) {
    return {{sizeof(xla::StateArguments), nullptr},
            frame.context,
            xla::Stage::kInstantiate,
            &type_of_share<kPlatform>,
            state};
}

template <Platform kPlatform>
void instantiate(const xla::CallFrame& frame) {
    auto share = std::make_unique<Share>(Callee::find(number_of(frame.attributes)));
    auto arguments = state_arguments<kPlatform>(frame, share.release());
    check(frame.api->set_state(&arguments), "keep an operator");
}

template <Platform kPlatform>
void execute(const xla::CallFrame& frame) {
    auto arguments = state_arguments<kPlatform>(frame, nullptr);
    check(frame.api->get_state(&arguments), "find an operator");
    Call call{frame, kPlatform, nullptr};
    if (kPlatform == Platform::kCuda) {
        xla::StreamArguments of_stream{{sizeof(of_stream), nullptr}, frame.context, nullptr};
        check(frame.api->get_stream(&of_stream), "give a stream");
        call.stream = of_stream.stream;
    }
    (*static_cast<const Share*>(arguments.state))->run(call);
}

// Tells XLA of which version this is, and what programs keep; XLA refuses a version that it does not know.
xla::Error* describe(const xla::CallFrame& frame, xla::TypeId state_type) {
    auto* const extension = reinterpret_cast<xla::MetadataExtension*>(frame.extensions);
    const xla::Version& version = frame.api->version;
    if (version.major != xla::kMajorVersion || version.minor < xla::kMinorVersion) {
        return error_of(frame, xla::ErrorCode::kFailedPrecondition,
                        "spmvgpu needs version 0.3 of XLA's interface for foreign functions; update jaxlib");
    }
    extension->metadata->version = {{sizeof(xla::Version), nullptr}, xla::kMajorVersion, xla::kMinorVersion};
    extension->metadata->traits = 0;
    extension->metadata->state_type = state_type;
    return nullptr;
}

template <Platform kPlatform, xla::Stage kStage>
xla::Error* handle(xla::CallFrame* frame) {
    constexpr bool kMakes = kStage == xla::Stage::kInstantiate;
    if (frame->extensions != nullptr && frame->extensions->type == xla::ExtensionType::kMetadata) {
        return describe(*frame, kMakes ? type_of_share<kPlatform> : xla::TypeId{});
    }
    try {
        kMakes ? instantiate<kPlatform>(*frame) : execute<kPlatform>(*frame);
        return nullptr;
    } catch (const std::exception& error) {
        return error_of(*frame, xla::ErrorCode::kInternal, error.what());
    }
}

py::dict type(void* id) {
    return py::dict(py::arg("type_id") = py::capsule(id),
                    py::arg("type_info") = py::capsule(static_cast<void*>(&info_of_share)));
}

template <Platform kPlatform>
py::dict handlers() {
    constexpr xla::Handler *kMake = &handle<kPlatform, xla::Stage::kInstantiate>,
                           *kRun = &handle<kPlatform, xla::Stage::kExecute>;
    return py::dict(py::arg("instantiate") = py::capsule(reinterpret_cast<void*>(kMake)),
                    py::arg("execute") = py::capsule(reinterpret_cast<void*>(kRun)));
}

std::shared_ptr<Callee> called_product(const Matrices& matrix, const std::vector<int>& ordinals) {
    return matrix.visit([&]<class T>(const std::shared_ptr<AnyMatrix<T>>& held) {
        return Callee::make<CalledProduct<T>>(held, ordinals);
    });
}

std::shared_ptr<Callee> called_product_of_values(const MatricesOf<Matrix>& matrix, const std::vector<int>& ordinals) {
    return matrix.visit([&]<class T>(const std::shared_ptr<Matrix<T>>& held) {
        return Callee::make<CalledProductOfValues<T>>(held, ordinals);
    });
}

}  // namespace

void register_xla(py::module_& module) {
    py::class_<Callee, std::shared_ptr<Callee>>(module, "XlaCallee", "The callee of a call in an XLA program.")
        .def(py::init(&called_product), py::arg("matrix"), py::arg("ordinals"),
             "Products, with arrays in host memory or on GPUs of these numbers.")
        .def_static(
            "of_values", &called_product_of_values, py::arg("matrix"), py::arg("ordinals"),
            "The product with a matrix whose values are the first argument, if its format stores them in CSR order.")
        .def(py::init([](const py::function& function) { return Callee::make<CalledFunction>(function); }),
             py::arg("function"), "A function of a list of the addresses of arguments and results, and of a stream.")
        .def_property_readonly("number", &Callee::number);
    module.def("end_xla_calls", &PythonCall::end_all, py::call_guard<GilRelease>(),
               "Wait for functions that programs of XLA call, and let no more begin.");
    module.def(
        "xla_types",
        [] {
            return py::dict(py::arg("cpu") = type(&type_of_share<Platform::kCpu>),
                            py::arg("CUDA") = type(&type_of_share<Platform::kCuda>));
        },
        "By platform, what XLA is to know of the type of what programs keep.");
    module.def(
        "xla_handlers",
        [] {
            return py::dict(py::arg("cpu") = handlers<Platform::kCpu>(), py::arg("CUDA") = handlers<Platform::kCuda>());
        },
        "By platform, the functions that XLA calls.");
}

}  // namespace spmvgpu
