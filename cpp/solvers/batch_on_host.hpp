// The small systems of a batch on the CPU: one core solves a system from its beginning to its end, so that the matrix
// stays in the caches, and no loop waits for other cores.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "formats/row_products.hpp"
#include "solvers/engines/batch.hpp"
#include "solvers/engines/host_pieces.hpp"
#include "solvers/engines/pieces_queue.hpp"
#include "solvers/methods/methods.hpp"

namespace spmvgpu {

// A block of a block-diagonal matrix, from a row on.
template <class T>
class BlockOfCsr : public LinearMap<T> {
public:
    BlockOfCsr(const Csr<T>& csr, index_t first, index_t rows) : csr_(csr), first_(first), rows_(rows) {}

    void apply(const T* x, T* y, Stream) const override {
        const index_t *const ends = csr_.row_offsets.data() + first_, *const cols = csr_.col_indices.data();
        for (index_t row = 0; row < rows_; ++row) {
            y[row] = sum_products(csr_.values.data(), ends[row], ends[row + 1],
                                  [&](index_t k) { return x[cols[k] - first_]; });
        }
    }

private:
    const Csr<T>& csr_;
    index_t first_, rows_;
};

// The matrix of a batch whose systems can be solved so; none if they are large, or in another format, or need each
// other: a preconditioner that is no diagonal has one product for all, and a caller who looks sees all vectors.
template <class T>
std::optional<Csr<T>> small_systems(const System<T>& system, const Limits& limits) {
    const bool are_together = system.has_operator() || limits.look_each || limits.look_restarts || limits.scaled;
    if (system.batch == 1 || are_together || system.n > BatchTuning::kMaxRows) return std::nullopt;
    const Matrix<T>* const matrix = system.A->matrix();
    if (matrix == nullptr) return std::nullopt;
    const auto stored = matrix->storage();
    const auto* const csr = std::get_if<Csr<T>>(&stored);
    return csr == nullptr ? std::nullopt : std::optional(*csr);
}

template <class T>
Reports solve_each_system(std::string_view method, const System<T>& system, const Csr<T>& csr, const Limits& limits,
                          const LookAt& look) {
    Reports reports(system.columns);
    for_each_piece(system.columns, [&](std::int64_t column) {
        System<T> one = system.product(column);
        one.columns = one.batch = 1;
        const auto first = static_cast<index_t>(column % system.batch * system.n);
        const BlockOfCsr<T> A(csr, first, system.n);
        const DiagonalMap<T> M(system.diagonal() + first);
        one.A = &A;
        if (system.diagonal() != nullptr) one.M = &M;
        const Needs needs = needs_of(method, one, limits);
        const std::shared_ptr<void> memory = allocate(needs.bytes, {});
        HostPieces pieces(1, needs.sums * sizeof(Wide<T>));
        PiecesQueue queue(pieces);
        reports[column] = run_method(method, queue, one, limits, static_cast<char*>(memory.get()), look)[0];
    });
    return reports;
}

}  // namespace spmvgpu
