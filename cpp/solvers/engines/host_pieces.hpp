// Pieces of vectors in host memory, or columns, whose sweeps are done one after the other.
#pragma once

#include <algorithm>
#include <vector>

#include "solvers/engines/host_queue.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

class HostPieces {
public:
    using Queue = HostQueue;

    // sum_bytes is the most memory for sums of a piece at once. The sums of a single piece may be over ranks.
    HostPieces(int pieces, std::size_t sum_bytes, const AddOverRanks* ranks = nullptr)
        : kept_(pieces, std::vector<double>(sum_bytes / sizeof(double))), ranks_(ranks) {}

    // Columns, whose sums are not added up.
    static HostPieces of_columns(int columns, std::size_t sum_bytes) {
        HostPieces pieces(columns, sum_bytes);
        pieces.are_columns_ = true;
        return pieces;
    }

    Stream stream() const { return nullptr; }

    template <class Call>
    void on(int, Call&& call) {
        call(queue_);
    }

    template <class Call>
    void beside(int, Call&& call) {
        call(queue_);
    }
    void rejoin() {}

    template <class S>
    bool knows_idle(const S* scalars) {
        return queue_.knows_idle(scalars);
    }

    void synchronize() {}

    template <class Iterate, class Look>
    void repeat(const Pace& pace, Iterate&& iterate, Look&& look) {
        queue_.repeat(pace, iterate, look);
    }

    // The place for a piece's sums.
    template <class W>
    W* kept(int piece) {
        return reinterpret_cast<W*>(kept_[piece].data());
    }

    // The scalar work of each piece with the sums of all of them; scalars_of(k) are the scalars of the k-th.
    template <class T, class ScalarsOf, class Then>
    void add_sums(int count, ScalarsOf&& scalars_of, Then then) {
        Wide<T> totals[kKeptSums];
        const auto use = [&](auto& scalars) { then(scalars, KeptSums<T>{totals}); };
        add_products(
            count, scalars_of, [&](int) { return totals; }, use);
    }

    // add_sums() for products with a basis, all of which each piece gets.
    template <class ScalarsOf, class ResultsOf, class Then>
    void add_products(int count, ScalarsOf&& scalars_of, ResultsOf&& results_of, Then then) {
        for (int piece = 0; piece < static_cast<int>(kept_.size()); ++piece) {
            if (scalars_of(piece)->stopped) continue;
            add_up(piece, count, results_of(piece));
            then(*scalars_of(piece));
        }
    }

private:
    // The sums of all pieces, in their order, or of one column.
    template <class W>
    void add_up(int column, int count, W* totals) {
        std::fill_n(totals, count, W(0));
        const int first = are_columns_ ? column : 0, end = are_columns_ ? column + 1 : static_cast<int>(kept_.size());
        for (int piece = first; piece < end; ++piece) {
            const W* const of_piece = kept<W>(piece);
            for (int k = 0; k < count; ++k) totals[k] += of_piece[k];
        }
        if (ranks_ != nullptr)
            (*ranks_)(reinterpret_cast<double*>(totals), static_cast<int>(count * sizeof(W) / sizeof(double)));
    }

    Queue queue_;
    std::vector<std::vector<double>> kept_;
    const AddOverRanks* ranks_;
    bool are_columns_ = false;
};

}  // namespace spmvgpu
