// Linear maps of solvers as Python has them: one class, whatever the value type.
#pragma once

#include "bindings/value_types.hpp"
#include "solvers/system/linear_map.hpp"

namespace spmvgpu {

using AnyMap = AnyOf<LinearMap>;

}  // namespace spmvgpu
