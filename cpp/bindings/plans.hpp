// Options of formats as Python gets them.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <vector>

#include "core/options.hpp"

namespace spmvgpu {

inline pybind11::typing::Dict<pybind11::str, OptionValue> named(const std::vector<OptionInfo>& list) {
    pybind11::typing::Dict<pybind11::str, OptionValue> options;
    for (const auto& option : list) options[option.name.c_str()] = option.value;
    return options;
}

}  // namespace spmvgpu
