// What planning tells Python.
#pragma once

#include <pybind11/pybind11.h>

#include "planning/source.hpp"

namespace spmvgpu {

pybind11::list to_python(const Steps& steps);  // (name, format, seconds)

}  // namespace spmvgpu
