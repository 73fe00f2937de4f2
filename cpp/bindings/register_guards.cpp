// Locks, thread bounds and context values for the `with` statements of the package, safe against interruption.
//
// A handler of Python's signals may raise an exception between any two steps of a Python program, also between the
// acquisition of a lock and the beginning of the block that releases it. C functions, in which no handler runs,
// therefore acquire the resources here. Each belongs to an object that the interpreter drops with the interrupted
// frame: the end of the block releases it, or else the end of the object.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bindings/bindings.hpp"
#include "core/parallel.hpp"

namespace py = pybind11;

namespace spmvgpu {

namespace {

// A block that has a Python lock. A `with` statement of the lock itself may end without release: Python 3.13 protects
// no jump at the end of a loop within the block.
class Hold {
public:
    explicit Hold(py::object lock) : lock_(std::move(lock)) {}
    ~Hold() {
        try {
            end();
        } catch (py::error_already_set&) {  // dropped by another thread than the one that has the lock
        }
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    void begin() {
        lock_.attr("acquire")();
        ++count_;
    }

    void end() {
        for (; count_ > 0; --count_) lock_.attr("release")();
    }

private:
    py::object lock_;
    int count_ = 0;
};

// True while the thread drops an object because of an exception.
thread_local bool is_failing = false;

// A bound of the calling thread's loops, which is in force from the start: until the end of a `with` statement's block,
// or else for good. It does not stay where an exception drops it: a handler raised that before the block began.
class ThreadBound {
public:
    explicit ThreadBound(int threads) : before_(set_thread_limit(threads)), thread_(PyThread_get_thread_ident()) {}
    ~ThreadBound() {
        if (is_of_block_ || is_failing) restore();
    }
    ThreadBound(const ThreadBound&) = delete;
    ThreadBound& operator=(const ThreadBound&) = delete;

    void enter() { is_of_block_ = true; }

    void restore() {
        if (std::exchange(thread_, 0) == PyThread_get_thread_ident()) set_thread_limit(before_);
    }

private:
    int before_;
    unsigned long thread_;  // the thread that is bounded; 0 once the earlier bound is back
    bool is_of_block_ = false;
};

// pybind11 puts a pending exception aside before it calls the destructor, which so cannot see it.
void drop_bound(PyObject* self) {
    is_failing = PyErr_Occurred() != nullptr;
    Py_TYPE(self)->tp_base->tp_dealloc(self);
    is_failing = false;
}

// A value of a context variable, within a block.
class Within {
public:
    Within(py::object variable, py::object value) : variable_(std::move(variable)), value_(std::move(value)) {}
    ~Within() {
        if (!token_) return;
        // The token belongs to another context, which is over.
        if (PyContextVar_Reset(variable_.ptr(), token_.ptr()) != 0) PyErr_Clear();
    }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

    py::object begin() {
        token_ = py::reinterpret_steal<py::object>(PyContextVar_Set(variable_.ptr(), value_.ptr()));
        if (!token_) throw py::error_already_set();
        return value_;
    }

    void end() {
        const py::object token = std::exchange(token_, py::object());
        if (token && PyContextVar_Reset(variable_.ptr(), token.ptr()) != 0) throw py::error_already_set();
    }

private:
    py::object variable_, value_, token_;
};

}  // namespace

void register_guards(py::module_& module) {
    py::class_<Hold>(module, "Hold", "Has a lock of threading's within a block.")
        .def(py::init<py::object>(), py::arg("lock"))
        .def("__enter__", &Hold::begin)
        .def("__exit__", [](Hold& hold, const py::args&) { hold.end(); });
    py::class_<ThreadBound>(
        module, "ThreadBound",
        py::custom_type_setup([](PyHeapTypeObject* type) { type->ht_type.tp_dealloc = &drop_bound; }),
        "A bound of the calling thread's loops: of a `with` statement's block, or until `restore` is called.")
        .def("__enter__", &ThreadBound::enter)
        .def("__exit__", [](ThreadBound& bound, const py::args&) { bound.restore(); })
        .def("restore", &ThreadBound::restore, "Put the bound that was before in force again.");
    module.def(
        "limit_threads", [](int threads) { return std::make_unique<ThreadBound>(threads); }, py::arg("threads"),
        "Bounds the threads of the calling thread's loops.");
    module.def(
        "at_most",
        [](int threads) {
            const int before = set_thread_limit(1);
            set_thread_limit(before);
            return std::make_unique<ThreadBound>(std::min(threads, before));
        },
        py::arg("threads"), "Bounds the threads of the calling thread's loops, never above the present bound.");
    py::class_<Within>(module, "Within", "Gives a context variable a value within a block.")
        .def(py::init<py::object, py::object>(), py::arg("variable"), py::arg("value"))
        .def("__enter__", &Within::begin)
        .def("__exit__", [](Within& within, const py::args&) { within.end(); });
}

}  // namespace spmvgpu
