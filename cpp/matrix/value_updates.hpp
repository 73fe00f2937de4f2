// ValueUpdates<T>: new values for a matrix that is stored already, and what it keeps for that.
#pragma once

#include <optional>

#include "core/csr_matrix.hpp"
#include "matrix/conversion.hpp"

namespace spmvgpu {

template <class T>
class ValueUpdates {
public:
    // Replaces the values of what is stored on a device by others in CSR order, as many, which lie in host memory or on
    // that device; `options` are those that it was converted with. Returns once that is done, and waits for everything
    // on the device before. Throws FormatError if the format does not hold them, OutOfMemory or CudaError; what is
    // stored is as before then, but after an error of the device.
    void store(Stored<T>& stored, const Array<T>& values, const Options& options, Device device);

    // Of what says where values in CSR order belong: the map, or the pattern.
    std::size_t nbytes() const;

private:
    CsrMatrix<T> in_pattern(const AnyFormat<T>& format, const Array<T>& values, Device builder);

    // Made by the first call, where a format needs them.
    std::optional<Array<index_t>> map_;
    std::optional<CsrMatrix<T>> pattern_;  // without values
};

}  // namespace spmvgpu
