// ValueUpdates<T>: new values for a format that is built already, and what it keeps for that.
#pragma once

#include <optional>

#include "core/array.hpp"
#include "formats/all.hpp"

namespace spmvgpu {

template <class T>
class ValueUpdates {
public:
    // Replaces the values of a format on a device by others in CSR order, as many, which lie in host memory or on that
    // device. Returns once that is done, and waits for everything on the device before. Only for formats whose traits
    // say how. Throws FormatError if the format does not hold them, OutOfMemory or CudaError.
    void store(AnyFormat<T>& format, const Array<T>& values, Device device);

    // Of the map, which says where values in CSR order belong.
    std::size_t nbytes() const { return map_ ? map_->bytes() : 0; }

private:
    std::optional<Array<index_t>> map_;  // made by the first call, where a format needs one
};

}  // namespace spmvgpu
