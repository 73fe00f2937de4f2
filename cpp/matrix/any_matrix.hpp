// AnyMatrix<T>: a linear map on one device, whatever it is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/types.hpp"
#include "gpu/timing.hpp"

namespace spmvgpu {

struct SetupSeconds {
    double convert = 0, transfer = 0;
};

// Properties of a matrix that do not depend on the type of its values.
class UntypedMatrix {
public:
    virtual ~UntypedMatrix() = default;

    // Upper bound of the CPU's threads in the products. Set before the first one.
    int max_threads = std::numeric_limits<int>::max();

    // Throws FormatError for a matrix that spmv() refuses, and that can therefore be no part of another.
    virtual void check_spmv() const {}

    // Returns true if several vectors are multiplied at once. On the CPU this holds for contiguous rows, with alpha 1
    // and beta 0 and no row_map; on a GPU always, where other matrices get copies one by one unless the vectors are
    // contiguous.
    virtual bool takes_rows() const { return false; }

    // Returns true if this many vectors that could be multiplied one by one, in place, had better be copied for that.
    virtual bool panels_are_worth_copies(index_t /*vectors*/) const { return false; }

    virtual bool can_be_recorded() const { return true; }

    // Microseconds of one product in a series: device time on a GPU, wall time on the CPU; a median.
    virtual double time_products(const Series& series) const = 0;

    virtual Device device() const = 0;
    virtual index_t rows() const = 0;
    virtual index_t cols() const = 0;
    virtual std::int64_t nnz() const = 0;
    virtual std::size_t nbytes() const = 0;  // device memory in use: arrays, scratch and the vectors of spmv_host
    virtual SetupSeconds setup_seconds() const = 0;
};

template <class T>
class AnyMatrix : public UntypedMatrix {
public:
    // y = alpha*A*x + beta*y with x and y on the matrix's device, with one column or several. On a GPU they may lie in
    // any way, and it returns once the work is queued on `stream`; on the CPU each vector must be contiguous, unless
    // takes_rows().
    virtual void spmv(const Product<T>& product, Stream stream) const = 0;

    // y = alpha*A*x + beta*y with x and y in host memory, on any device and in any layout. Complete when it returns.
    virtual void spmv_host(const Product<T>& product) const = 0;
};

}  // namespace spmvgpu
