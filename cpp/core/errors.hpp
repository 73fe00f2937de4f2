// The exceptions of the library. std::invalid_argument stands for a bad value (ValueError in Python).
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace spmvgpu {

// A matrix that a format cannot hold, or only at a cost beyond its limit. Thrown before memory is allocated.
struct FormatError : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// An option that a format does not have (TypeError in Python, like an unknown keyword).
struct UnknownOption : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// A CUDA call that failed, or a CUDA device that is not there.
struct CudaError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct OutOfMemory : std::runtime_error {
    OutOfMemory(const std::string& device, std::size_t asked, std::size_t available)
        : std::runtime_error("out of memory on " + device + ": " + std::to_string(asked) + " bytes asked for, " +
                             std::to_string(available) + " bytes free") {}
};

}  // namespace spmvgpu
