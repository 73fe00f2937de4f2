// The features of a matrix as Python gets them.
#pragma once

#include <pybind11/pybind11.h>

#include "model/features.hpp"

namespace spmvgpu {

pybind11::dict to_dict(const Features& found);

}  // namespace spmvgpu
