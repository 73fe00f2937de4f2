// Options and plans of formats as Python gets them.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "bindings/gil.hpp"
#include "matrix/matrix.hpp"

namespace spmvgpu {

inline pybind11::dict named(const std::vector<OptionInfo>& list) {
    pybind11::dict options;
    for (const auto& option : list) options[option.name.c_str()] = option.value;
    return options;
}

// The plan that make() makes, without the interpreter's lock.
template <class Make>
pybind11::dict described(const Make& make) {
    std::shared_ptr<const MatrixPlan> plan;
    {
        const GilRelease release;
        plan = make();
    }
    const Cost& cost = plan->cost;
    namespace py = pybind11;
    return py::dict(py::arg("options") = named(plan->options), py::arg("bytes") = cost.bytes,
                    py::arg("padding") = cost.padding(), py::arg("slots") = cost.slots,
                    py::arg("launches") = cost.launches, py::arg("gathers") = cost.gathers,
                    py::arg("counts") = cost.counts);
}

}  // namespace spmvgpu
