// What planning tells Python.
#pragma once

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <vector>

#include "planning/source.hpp"

namespace spmvgpu {

using StepTuples = std::vector<std::tuple<std::string, std::string, double>>;  // name, format, seconds

StepTuples tuples(const Steps& steps);

}  // namespace spmvgpu
