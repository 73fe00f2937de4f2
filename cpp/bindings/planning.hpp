// Results of planning, as Python gets them.
#pragma once

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/value_types.hpp"
#include "planning/source.hpp"

namespace spmvgpu {

using AnyCsrSource = AnyOf<PlannedSource>;                                     // Python's CsrSource
using StepTuples = std::vector<std::tuple<std::string, std::string, double>>;  // name, format, seconds

StepTuples tuples(const Steps& steps);

// Features of a matrix in arrays that the caller keeps alive.
template <class T>
AnyCsrSource source_of(const CsrMatrix<T>& csr) {
    return std::make_shared<PlannedSource<T>>(csr);
}

}  // namespace spmvgpu
