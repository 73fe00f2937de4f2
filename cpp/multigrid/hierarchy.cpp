#include "multigrid/hierarchy.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "core/passes/csr_algebra.hpp"
#include "gpu/run.hpp"
#include "gpu/runtime.hpp"
#include "multigrid/between_pieces.hpp"

namespace spmvgpu::multigrid {

namespace {

constexpr index_t kMostOfLast = 2000;  // unknowns of a coarsest matrix, of which the inverse is made

Nodes nodes_of(index_t rows, const Array<index_t>& first_rows, Device device) {
    if (first_rows.size() == 0) return {rows, {}, {}, {}};
    Nodes nodes{static_cast<index_t>(first_rows.size() - 1), {}, first_rows.to(device), {}};
    HostVector<index_t> of_row(rows);
    for (index_t node = 0; node < nodes.count; ++node) {
        for (index_t row = first_rows[node]; row < first_rows[node + 1]; ++row) of_row[row] = node;
    }
    nodes.of_row = Array<index_t>::from(of_row).to(device);
    return nodes;
}

Coarsening copy_to(const Coarsening& made, Device device) {
    const PatternArrays& of_P = made.of_P;
    return {{made.aggregates.count, made.aggregates.of_node.to(device)},
            made.steps,
            {of_P.rows, of_P.cols, of_P.nnz, of_P.row_offsets.to(device), of_P.col_indices.to(device)},
            made.kept.to(device)};
}

}  // namespace

template <class T>
double Hierarchy<T>::checked(const CsrMatrix<T>& A, std::size_t level, bool is_last) {
    const EntryChecks found = gpu::run(Inspect<T>{A}, A.device());
    if (found.not_finite > 0) refusals_.push_back({static_cast<int>(level), false});
    if (level == 0) {
        if (found.not_positive > 0 && refusals_.empty()) refusals_.push_back({0, true});
        return 0;
    }
    // If the finest matrix is singular, so are the coarser ones, and these are rounding errors.
    constexpr double kRounding = 16;
    const double negligible = kRounding * std::numeric_limits<Real<T>>::epsilon() * found.largest;
    const bool is_wrong = !kIsComplex<T> && !settings_.is_hermitian && !is_last && found.below > negligible;
    if (is_wrong && refusals_.empty()) {
        refusals_.push_back({static_cast<int>(level), true});
    }
    return negligible;
}

template <class T>
bool is_nearly_hermitian(const CsrMatrix<T>& A) {
    return gpu::run(IsNearlyHermitian<T>{A}, A.device());
}

template <class T>
Hierarchy<T>::Hierarchy(const CsrMatrix<T>& A, const Array<index_t>& first_rows, const T* B, index_t modes,
                        const Settings& settings, const Array<index_t>& near)
    : settings_(settings), next_(A), nodes_(nodes_of(A.rows, first_rows, A.device())), finest_entries_(A.nnz) {
    const Device device = A.device();
    if (near.size() > 0) nodes_.outer = gpu::run(MarkedNodes{near, nodes_}, device);
    if (B == nullptr) {
        near_null_ = {modes, gpu::run(ConstantsOfNodes<T>{A.rows, modes}, device), modes == 1};
    } else {
        const std::size_t entries = std::size_t(A.rows) * modes;
        Array<Wide<T>> wide(entries);
        parallel_for<std::int64_t>(entries, entries, [&](std::int64_t i) { wide[i] = Wide<T>(B[i]); });
        near_null_ = {modes, wide.to(device)};
    }
    settings_.has_signs = nodes_.are_rows() && near_null_.count == 1;
}

template <class T>
bool Hierarchy<T>::grow(const std::vector<Coarsening>* decided) {
    if (next_.rows == 0) return false;
    const Device device = next_.device();
    const auto level = static_cast<int>(grids_.size());
    bool is_last = next_.rows <= settings_.max_coarse || level + 1 >= settings_.max_levels;
    Coarsening here;
    if (decided != nullptr) {
        is_last = static_cast<std::size_t>(level) >= decided->size();
        if (!is_last) here = copy_to((*decided)[level], device);
    }
    const double negligible = checked(next_, settings_.finer + level, is_last);
    // A smoother needs a positive diagonal, which the inverse of the coarsest matrix does not. A matrix that lacks one
    // at once is not suited.
    const bool may_be_last = level > 1 && decided == nullptr && next_.rows <= kMostOfLast;
    if (may_be_last && !refusals_.empty() && refusals_.back().is_finite) {
        refusals_.clear();
        is_last = true;
    }
    if (!refusals_.empty()) return false;
    auto made = gpu::run(Coarsen<T>{next_, nodes_, near_null_, negligible, settings_, is_last,
                                    decided != nullptr && !is_last ? &here : nullptr},
                         device);
    nodes_ = made.grid.tentative.nodes;
    near_null_ = made.grid.tentative.near_null;
    if (level == 0) made.grid.A.values = {};
    settings_.most_terms = made.grid.is_smoothed() ? settings_.most_terms_below : 0;
    // A matrix with at most this share of the finest entries is small enough for more coarse unknowns.
    constexpr double kFew = 0.5;
    settings_.rounds = made.coarse.nnz <= kFew * finest_entries_ ? 2 : 1;
    const std::lock_guard lock(growing_);
    grids_.push_back(std::move(made.grid));
    next_ = std::move(made.coarse);
    return next_.rows > 0;
}

template <class T>
std::size_t Hierarchy<T>::size() const {
    const std::lock_guard lock(growing_);
    return grids_.size();
}

template <class T>
const Grid<T>& Hierarchy<T>::grid(std::size_t level) const {
    const std::lock_guard lock(growing_);
    return grids_.at(level);
}

template <class T>
CsrMatrix<T> Hierarchy<T>::matrix(std::size_t level) const {
    const std::lock_guard lock(growing_);
    return level == grids_.size() && next_.rows > 0 ? next_ : grids_.at(level).A;
}

template <class T>
int Hierarchy<T>::smoothed_levels() const {
    const std::lock_guard lock(growing_);
    return static_cast<int>(std::ranges::count_if(grids_, &Grid<T>::is_smoothed));
}

template <class T>
void Hierarchy<T>::renew(const Array<T>& values) {
    refusals_.clear();
    if (grids_.empty()) return;
    CsrMatrix<T> next = grids_[0].A;
    if (static_cast<std::size_t>(next.nnz) != values.size()) {
        throw std::invalid_argument("the matrix has " + std::to_string(next.nnz) + " stored entries, and not " +
                                    std::to_string(values.size()));
    }
    const Device device = next.device();
    gpu::synchronize_device(device);  // queued work on the values is done
    next.values = values.to(device);
    grids_[0].A.values = next.values;
    for (std::size_t level = 0; level < grids_.size(); ++level) {
        const bool is_last = level + 1 == grids_.size();
        const double negligible = checked(next, settings_.finer + level, is_last);
        if (!refusals_.empty()) return;
        const CsrMatrix<T> none;
        CsrMatrix<T> coarse = gpu::run(
            Renew<T>{next, negligible, settings_, grids_[level], is_last ? none : grids_[level + 1].A}, device);
        if (level > 0) grids_[level].A.values = next.values;
        next = std::move(coarse);
    }
}

template <class T>
Array<index_t> Hierarchy<T>::nodes(std::size_t level) const {
    return grid(level - 1).tentative.nodes.first_row.to({});
}

template <class T>
Array<T> Hierarchy<T>::near_null_space(std::size_t level) const {
    const Array<Wide<T>> wide = grid(level - 1).tentative.near_null.entries.to({});
    Array<T> entries(wide.size());
    for (std::size_t i = 0; i < wide.size(); ++i) entries[i] = T(wide[i]);
    return entries;
}

template <class T>
CsrMatrix<T> Hierarchy<T>::tentative(std::size_t level) const {
    return gpu::run(TentativeMatrix<T>{grid(level)}, grid(level).P.device());
}

template <class T>
CsrMatrix<T> Hierarchy<T>::smoothing(std::size_t level, const CsrMatrix<T>& A, const Array<index_t>& near,
                                     const CsrMatrix<T>& ET) const {
    const Grid<T>& grid = this->grid(level);
    const bool fits = A.rows == grid.P.rows && static_cast<std::size_t>(ET.rows) == near.size();
    if (!fits || A.device() != ET.device() || near.device() != ET.device()) {
        throw std::invalid_argument("matrices that do not belong to the grid");
    }
    CsrMatrix<T> made = ET;
    made.rows = A.rows;
    made.row_offsets = gpu::run(PlacedRows{ET.row_offsets, near, A.rows}, A.device());
    const Array<double> factors = gpu::run(SmoothingFactors<T>{A, made, grid}, A.device());
    made.values = gpu::run(ScaledRows<T>{made, factors, -1.0}, A.device());
    return made;
}

template <class T>
std::vector<Coarsening> Hierarchy<T>::coarsenings() const {
    std::vector<Coarsening> made;
    for (std::size_t level = 0; level + 1 < grids_.size(); ++level) {
        const Grid<T>& grid = grids_[level];
        const auto aggregates = static_cast<index_t>(grid.tentative.offsets.size() - 1);
        made.push_back({{aggregates, grid.aggregates},
                        grid.steps,
                        {grid.P.rows, grid.P.cols, grid.P.nnz, grid.P.row_offsets, grid.P.col_indices},
                        grid.kept});
    }
    return made;
}

template <class T>
void Hierarchy<T>::drop_values() {
    for (Grid<T>& grid : grids_) grid.A.values = grid.P.values = grid.R.values = {};
}

template <class T>
std::size_t Hierarchy<T>::nbytes() const {
    // Coarser grids share their vector with the grid before.
    std::size_t bytes = grids_.empty() ? 0 : grids_[0].near_null.bytes();
    for (const Grid<T>& grid : grids_) {
        for (const auto* matrix : {&grid.A, &grid.P, &grid.R}) {
            bytes += matrix->row_offsets.bytes() + matrix->col_indices.bytes() + matrix->values.bytes();
        }
        bytes += grid.inverse_diagonal.bytes() + grid.aggregates.bytes() + grid.kept.bytes() +
                 grid.tentative.first_col.bytes() + grid.tentative.offsets.bytes() + grid.tentative.entries.bytes() +
                 grid.tentative.near_null.entries.bytes() + grid.of_once.bytes() + grid.of_AP.bytes() +
                 grid.entries_of_R.bytes() + grid.of_adjoint.bytes() + grid.of_its_P.bytes() +
                 grid.entries_of_adjoint.bytes();
    }
    return bytes;
}

#define INSTANTIATE(T)           \
    template class Hierarchy<T>; \
    template bool is_nearly_hermitian(const CsrMatrix<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu::multigrid
