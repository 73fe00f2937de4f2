// The features of a matrix as Python has them.
#pragma once

#include <pybind11/pybind11.h>

#include "planning/features.hpp"

namespace spmvgpu {

pybind11::dict to_dict(const Features& found);
Features from_dict(const pybind11::dict& given);

}  // namespace spmvgpu
