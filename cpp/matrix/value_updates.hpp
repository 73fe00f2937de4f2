// ValueUpdates<T>: new values for a stored matrix, and the data that it keeps for them.
#pragma once

#include <optional>

#include "core/csr_matrix.hpp"
#include "matrix/conversion.hpp"

namespace spmvgpu {

template <class T>
class ValueUpdates {
public:
    // Replaces the values of a stored matrix by equally many others in CSR order, which lie in host memory or on its
    // device; `options` are the options of the conversion. Returns once that is done, and waits for everything on the
    // device before. Throws FormatError if the format does not hold them, OutOfMemory or CudaError; the matrix is
    // unchanged then, except after an error of the device.
    void store(FormatMatrix<T>& stored, const Array<T>& values, const Options& options, Device device);

    // Bytes of the map from CSR order, or of the pattern.
    std::size_t nbytes() const;

private:
    CsrMatrix<T> in_pattern(const AnyFormat<T>& format, const Array<T>& values, Device builder);

    // Made by the first call, if a format needs them.
    std::optional<Array<index_t>> map_;
    std::optional<CsrMatrix<T>> pattern_;  // without values
};

}  // namespace spmvgpu
