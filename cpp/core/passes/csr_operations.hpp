// What is asked of a matrix in CSR, on the device where it lies: operations for gpu/run.hpp.
#pragma once

#include "core/passes/clusters.hpp"
#include "core/passes/csr_passes.hpp"
#include "core/passes/host_passes.hpp"
#include "core/transpose.hpp"

namespace spmvgpu {

struct LongestRow {
    using Result = index_t;
    CsrPattern csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return longest_row(passes, csr.rows, csr.row_offsets);
    }
};

struct IsCanonical {
    using Result = bool;
    CsrPattern csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return is_canonical(passes, csr.rows, csr.cols, csr.nnz, csr.row_offsets, csr.col_indices);
    }
};

struct Clustering {
    using Result = double;
    CsrPattern csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return clustering(passes, csr.rows, csr.row_offsets, csr.col_indices);
    }
};

// Every step-th of an array, from the first on.
struct TakeEvery {
    using Result = Array<index_t>;
    const Array<index_t>& from;
    std::int64_t step;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return take_every(passes, from.data(), static_cast<std::int64_t>(from.size()), step);
    }
};

template <class T>
struct Transpose {
    using Result = CsrMatrix<T>;
    const CsrMatrix<T>& csr;

    Result operator()(HostPasses& /*passes*/) const { return transpose(csr); }
    template <class Passes>
    Result operator()(Passes& passes) const {
        return transpose_by_order(passes, csr);
    }
};

// A square matrix in an order by clusters: row order[i] becomes row i, and so do the columns.
template <class T>
struct ReorderByClusters {
    struct Result {
        Array<index_t> order;
        CsrMatrix<T> csr;
    };
    const CsrMatrix<T>& csr;

    template <class Passes>
    Result operator()(Passes& passes) const {
        Array<index_t> order = passes.keep(order_by_clusters(passes, csr));
        passes.finish();  // so the matrix may lie where that was found
        CsrMatrix<T> matrix = reordered(passes, csr, order.data());
        return {std::move(order), std::move(matrix)};
    }
};

// See entries_before().
template <class T>
struct EntriesBefore {
    using Result = Array<index_t>;
    const CsrMatrix<T>& csr;
    const Array<index_t>& order;

    template <class Passes>
    Result operator()(Passes& passes) const {
        return entries_before(passes, csr, order.data());
    }
};

}  // namespace spmvgpu
