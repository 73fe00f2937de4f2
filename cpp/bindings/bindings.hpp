// One function per area; module.cpp calls them all. Only this folder knows pybind11.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/gil.hpp"

namespace spmvgpu {

void register_runtime(pybind11::module_& module);
void register_guards(pybind11::module_& module);
void register_canonical(pybind11::module_& module);
void register_matrix(pybind11::module_& module);
void register_source(pybind11::module_& module);
void register_planning(pybind11::module_& module);
void register_multi(pybind11::module_& module);
void register_arrays(pybind11::module_& module);
void register_model(pybind11::module_& module);
void register_roofline(pybind11::module_& module);
void register_ranks(pybind11::module_& module);
void register_maps(pybind11::module_& module);
void register_solvers(pybind11::module_& module);
void register_subspaces(pybind11::module_& module);
void register_multigrid(pybind11::module_& module);
void register_xla(pybind11::module_& module);

}  // namespace spmvgpu
