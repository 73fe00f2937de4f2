// Sums over ranks, as Python says how to add them up.
#pragma once

#include <pybind11/numpy.h>

#include <memory>

#include "bindings/gil.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

// None, a communicator of NCCL, or a function that adds what other ranks have to an array of sums.
inline RankSums rank_sums(const pybind11::object& ranks) {
    if (ranks.is_none()) return {};
    if (pybind11::isinstance<gpu::NcclCommunicator>(ranks)) {
        return {{}, ranks.cast<std::shared_ptr<gpu::NcclCommunicator>>()};
    }
    // Copies of the function are made without the interpreter's lock, and must not count references.
    const auto function = std::make_shared<pybind11::object>(ranks);
    return {[function](double* sums, int count) {
                GilRelease::with_gil(
                    [&] { call_python(*function, pybind11::array_t<double>(count, sums, pybind11::none())); });
            },
            nullptr};
}

}  // namespace spmvgpu
