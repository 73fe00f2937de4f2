#include "planning/row_sample.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "core/parallel.hpp"
#include "core/value_types.hpp"

namespace spmvgpu {

namespace {

// Neighbouring rows in a run: whole block rows of every size.
constexpr index_t kRun = 12;
static_assert(std::ranges::all_of(RowSample::kBlocks, [](index_t block) { return kRun % block == 0; }));

// One row in kOneIn is sampled, within these numbers of runs.
constexpr index_t kOneIn = 16, kLeastRuns = 8, kMostRuns = 64;

// Entries of a row that are compared with another row's: a whole number of blocks of every size.
constexpr index_t kCompared = 48;

template <class T>
class Sampler {
public:
    explicit Sampler(const CsrMatrix<T>& csr)
        : csr_(csr),
          most_diagonals_(static_cast<std::size_t>(RowSample::kFewDiagonals * csr.nnz / std::max(csr.rows, 1)) + 1) {
        for (const index_t block : RowSample::kBlocks) {
            if (csr.rows % block == 0 && csr.cols % block == 0 && csr.nnz % (block * block) == 0) {
                blocks_.push_back(block);
            }
        }
    }

    void add_run(index_t first) {
        const bool is_periodic = has_periodic_lengths(first);
        for (index_t row = first; row < first + kRun; ++row) {
            std::erase_if(blocks_, [&](index_t block) { return !is_of_blocks(row, block); });
            add_diagonals(row);
            if (row + 1 == first + kRun) break;
            ++pairs_;
            const bool is_even = csr_.row_length(row) == csr_.row_length(row + 1);
            uneven_ += !is_even && !is_periodic;
            alike_ += is_even && is_like_next(row);
        }
    }

    void add_to(RowSample& sample) const {
        if (pairs_ == 0) return;
        sample.alike = static_cast<double>(alike_) / static_cast<double>(pairs_);
        sample.uneven = static_cast<double>(uneven_) / static_cast<double>(pairs_);
        sample.longest = longest();
        sample.threads = static_cast<int>(std::min<std::int64_t>(max_threads(), piece_count(csr_.nnz)));
        if (!blocks_.empty()) sample.block = blocks_.front();
        sample.has_few_diagonals = diagonals_.size() <= most_diagonals_;
        sample.diagonals = static_cast<index_t>(diagonals_.size());
    }

private:
    // The longest of all rows. Reading their offsets takes little of the time of a product.
    index_t longest() const {
        index_t most = 0;
        for (index_t row = 0; row < csr_.rows; ++row) most = std::max(most, csr_.row_length(row));
        return most;
    }

    index_t begin(index_t row) const { return csr_.row_offsets[row]; }
    index_t compared(index_t row) const { return begin(row) + std::min(csr_.row_length(row), kCompared); }

    // Returns true if the lengths of the rows of a run repeat, as with several unknowns a node. Their ends are
    // predicted.
    bool has_periodic_lengths(index_t first) const {
        for (index_t period = 1; period <= kRun / 2; ++period) {
            index_t row = first;
            while (row + period < first + kRun && csr_.row_length(row) == csr_.row_length(row + period)) ++row;
            if (row + period == first + kRun) return true;
        }
        return false;
    }

    // Requires rows of equal length.
    bool is_like_next(index_t row) const {
        const index_t* const cols = csr_.col_indices.data();
        const T* const values = csr_.values.data();
        for (index_t k = begin(row), next = begin(row + 1); k < compared(row); ++k, ++next) {
            if (cols[next] != cols[k] + 1 || values[next] != values[k]) return false;
        }
        return true;
    }

    // Returns true if the row has the columns of the first row of its block row, and these come in whole blocks.
    bool is_of_blocks(index_t row, index_t block) const {
        const index_t first = row - row % block, length = csr_.row_length(row);
        if (length % block != 0 || length != csr_.row_length(first)) return false;
        const index_t* const own = csr_.col_indices.data() + begin(row);
        const index_t* const same = csr_.col_indices.data() + begin(first);
        for (index_t i = 0; i < std::min(length, kCompared); ++i) {
            const index_t c = i % block;
            if (own[i] != same[i] || own[i] % block != c || own[i] != own[i - c] + c) return false;
        }
        return true;
    }

    // The diagonals of a row ascend. Once there are many, no more are counted.
    void add_diagonals(index_t row) {
        if (diagonals_.size() > most_diagonals_) return;
        const std::size_t length = csr_.row_length(row);
        own_.resize(std::min(length, most_diagonals_ + 1));
        const index_t* const cols = csr_.col_indices.data() + begin(row);
        std::transform(cols, cols + own_.size(), own_.begin(), [&](index_t col) { return col - row; });
        if (std::ranges::includes(diagonals_, own_)) return;
        both_.clear();
        std::ranges::set_union(diagonals_, own_, std::back_inserter(both_));
        diagonals_.swap(both_);
    }

    const CsrMatrix<T>& csr_;
    std::size_t most_diagonals_;
    std::vector<index_t> blocks_;                  // possible sizes, the largest first
    std::vector<index_t> diagonals_, own_, both_;  // distances from the main diagonal, ascending
    std::int64_t pairs_ = 0, alike_ = 0, uneven_ = 0;
};

}  // namespace

template <class T>
RowSample sample_rows(const CsrMatrix<T>& csr) {
    RowSample sample{csr.rows, csr.cols, csr.nnz, sizeof(T)};
    Sampler<T> sampler(csr);
    const std::int64_t all = csr.rows / kRun;
    const auto runs = std::min(all, std::clamp<std::int64_t>(all / kOneIn, kLeastRuns, kMostRuns));
    for (std::int64_t i = 0; i < runs; ++i) {  // not at the ends, where rows are often different
        sampler.add_run(static_cast<index_t>((2 * i + 1) * all / (2 * runs)) * kRun);
    }
    sampler.add_to(sample);
    return sample;
}

#define INSTANTIATE(T) template RowSample sample_rows(const CsrMatrix<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
