// ValueUpdates<T>: new values for a format that is built already, and what it keeps for that.
#pragma once

#include <optional>

#include "core/csr_matrix.hpp"
#include "formats/all.hpp"

namespace spmvgpu {

template <class T>
class ValueUpdates {
public:
    // Replaces the values of a format on a device by others in CSR order, as many, which lie in host memory or on that
    // device. Returns once that is done, and waits for everything on the device before. Not for formats that are built
    // anew. Throws FormatError if the format does not hold them, OutOfMemory or CudaError.
    void store(AnyFormat<T>& format, const Array<T>& values, Device device);

    // For formats that are built anew: the matrix that they are built of, with these values, on the device where that
    // happens. The first call reads the pattern from the format, in host memory.
    CsrMatrix<T> in_pattern(const AnyFormat<T>& format, const Array<T>& values, Device builder);

    // Of what says where values in CSR order belong: the map, or the pattern.
    std::size_t nbytes() const;

private:
    // Made by the first call, where a format needs them.
    std::optional<Array<index_t>> map_;
    std::optional<CsrMatrix<T>> pattern_;  // without values
};

}  // namespace spmvgpu
