// Sweeps over vectors in pieces, each on a device of its own, with the same text of a solver as for whole vectors.
// Memory is symmetric, as in PGAS languages: its layout is equal for all pieces, and a pointer of the solver, into the
// memory of the first piece, stands for the addresses with the same offset in the others. Every piece has its own
// scalars. A sweep leaves the sums of each piece; then each device adds up the sums of all pieces, in their order, and
// does the scalar work: scalars are equal everywhere, to the last bit. Postponed work waits for the next sums.
//
// The columns of several right-hand sides are such pieces, too, but each does its scalar work with its own sums.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "solvers/engines/engine.hpp"
#include "solvers/engines/sweep.hpp"

namespace spmvgpu {

// A piece of all vectors, and the offset of its memory from the first piece's.
struct SymmetricPiece {
    static constexpr index_t kAnyLength = -1;  // a piece that is all of its process, of vectors of any length

    index_t n = 0;
    std::ptrdiff_t memory = 0;
    std::ptrdiff_t vectors = 0;  // of the vectors; elements of other pieces may come first
    bool is_column = false;
    std::ptrdiff_t shared = 0;  // of vectors that columns share

    index_t length(index_t of_whole) const { return n == kAnyLength ? of_whole : n; }

    template <class U>
    U* own(U* pointer) const {
        return moved(pointer, memory);
    }
    template <class T>
    T* own_vector(T* vector) const {
        return moved(vector, vectors);
    }
    template <class T>
    T* shared_vector(T* vector) const {
        return moved(vector, is_column ? shared : vectors);
    }

private:
    template <class U>
    static U* moved(U* pointer, std::ptrdiff_t bytes) {
        return pointer == nullptr ? nullptr : reinterpret_cast<U*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
    }
};

// `Pieces` has a queue for each piece, and adds up their sums: HostPieces or gpu::CudaPieces.
template <class Pieces>
class PiecesQueue {
public:
    static constexpr bool kIsGpu = Pieces::Queue::kIsGpu;
    static constexpr bool kIsInPieces = true;
    using Shortcuts = NoShortcuts;

    PiecesQueue(Pieces& pieces, std::vector<SymmetricPiece> memory) : pieces_(pieces), memory_(std::move(memory)) {}
    // A queue of a single piece, for vectors of any length.
    explicit PiecesQueue(Pieces& pieces) : PiecesQueue(pieces, {{SymmetricPiece::kAnyLength}}) {}

    // The stream of the first piece; products of several pieces know the others.
    Stream stream() const { return pieces_.stream(); }

    template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then = NoWork>
    void sweep(S* scalars, index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step,
               Then then = {}) {
        over_pieces<T>(scalars, then, [&](auto& queue, const SymmetricPiece& piece, auto keep) {
            queue.sweep(piece.own(scalars), piece.length(n), moved(reads, piece), moved(writes, piece), step, keep);
        });
    }
    // A sweep over the first (0) or second (1) half of each piece, with scalars of its own, that may run while sums are
    // added up: after all that is queued before it, and before what is queued after rejoin().
    template <class S, class T, int kReads, int kWrites, class Step, class Then>
    void beside(S* scalars, index_t n, int half, Reads<T, kReads, 0> reads, Writes<T, kWrites> writes, Step step,
                Then then) {
        constexpr index_t kAligned = 64;
        for (int k = 0; k < size(); ++k) {
            const SymmetricPiece& piece = memory_[k];
            const index_t middle = piece.length(n) / 2 / kAligned * kAligned;
            const index_t begin = half == 0 ? 0 : middle, end = half == 0 ? middle : piece.length(n);
            pieces_.beside(k, [&](auto& queue) {
                queue.sweep(piece.own(scalars), end - begin, moved(reads, piece).column(begin),
                            moved(writes, piece).column(begin), step, then);
            });
        }
    }
    void rejoin() { pieces_.rejoin(); }

    template <class T, int kReads, unsigned kMissing, int kWrites, class Step>
    void each(index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step) {
        each_piece([&](auto& queue, const SymmetricPiece& piece) {
            queue.each(piece.length(n), moved(reads, piece), moved(writes, piece), step);
        });
    }

    // The scalar work with x.y and y.Wy of a product, which has left pairs of parts for some rows of each piece.
    template <class S, class T, class LeftOf, class Then>
    void add_dots(S* scalars, const Wide<T>* parts, const T* x, const T* y, const T* w, LeftOf&& left_of, Then then) {
        over_pieces<T>(scalars, then, [&](auto& queue, const SymmetricPiece& piece, auto keep) {
            const auto number = static_cast<int>(&piece - memory_.data());
            queue.add_dots(piece.own(scalars), left_of(number), piece.own(parts), piece.own_vector(x),
                           piece.own_vector(y), piece.own_vector(w), keep);
        });
    }

    template <class S, class T, class Then>
    void dots(S* scalars, index_t n, Basis<T> basis, int count, const T* w, Wide<T>* results, Then then) {
        for (int k = 0; k < size(); ++k) {
            pieces_.on(k, [&](auto& queue) {
                const SymmetricPiece& piece = memory_[k];
                queue.dots(piece.own(scalars), piece.length(n), moved(basis, piece), count, piece.own_vector(w),
                           pieces_.template kept<Wide<T>>(k), NoWork{});
            });
        }
        pieces_.add_products(
            count, [&](int k) { return memory_[k].own(scalars); }, [&](int k) { return memory_[k].own(results); },
            then);
    }

    template <class S, class T, class Count, class Then>
    void combine(S* scalars, index_t n, Basis<T> basis, Count count, const Wide<T>* factors, double sign, T* target,
                 Then then) {
        over_pieces<T>(scalars, then, [&](auto& queue, const SymmetricPiece& piece, auto keep) {
            queue.combine(piece.own(scalars), piece.length(n), moved(basis, piece), count, piece.own(factors), sign,
                          piece.own_vector(target), keep);
        });
    }

    template <class S, class Work>
    void compute(S* scalars, Work work) {
        each_piece([&](auto& queue, const SymmetricPiece& piece) { queue.compute(piece.own(scalars), work); });
    }

    template <class S>
    bool knows_idle(const S* scalars) {
        for (int k = 0; k < columns(); ++k) {
            if (!pieces_.knows_idle(memory_[k].own(scalars))) return false;
        }
        return true;
    }

    void zero(void* memory, std::size_t bytes) {
        each_piece([&](auto& queue, const SymmetricPiece& piece) { queue.zero(piece.own(memory), bytes); });
    }

    template <class S>
    void put_scalars(S* to, const S& value) {
        each_piece([&](auto& queue, const SymmetricPiece& piece) {
            S own = value;
            own.visit_pointers([&](auto*& pointer) { pointer = piece.own(pointer); });
            queue.put_scalars(piece.own(to), own);
        });
    }

    template <class S>
    S read_scalars(const S* from) {
        S value;
        pieces_.on(0, [&](auto& queue) { value = queue.read_scalars(from); });
        return value;
    }

    int columns() const { return memory_[0].is_column ? size() : 1; }

    template <class S>
    std::vector<S> read_columns(const S* from) {
        std::vector<S> values(columns());
        for (int k = 0; k < columns(); ++k) {
            pieces_.on(k, [&](auto& queue) { values[k] = queue.read_scalars(memory_[k].own(from)); });
        }
        return values;
    }
    template <class S>
    void put_columns(S* to, const std::vector<S>& values) {
        if (columns() == 1) return put_scalars(to, values[0]);
        for (int k = 0; k < columns(); ++k) {
            pieces_.on(k, [&](auto& queue) { queue.put_scalars(memory_[k].own(to), values[k]); });
        }
    }

    void download(void* to, const void* from, std::size_t bytes) {
        pieces_.on(0, [&](auto& queue) { queue.download(to, from, bytes); });
    }

    template <class Iterate, class Look>
    void repeat(const Pace& pace, Iterate&& iterate, Look&& look) {
        pieces_.repeat(pace, iterate, look);
    }

private:
    int size() const { return static_cast<int>(memory_.size()); }

    template <class Call>
    void each_piece(Call&& call) {
        for (int k = 0; k < size(); ++k) {
            pieces_.on(k, [&](auto& queue) { call(queue, memory_[k]); });
        }
    }

    // A call that sums, and the scalar work with the sums over all pieces.
    template <class T, class S, class Then, class Call>
    void over_pieces(S* scalars, Then then, Call&& call) {
        if constexpr (std::is_same_v<Then, NoWork>) {
            each_piece([&](auto& queue, const SymmetricPiece& piece) { call(queue, piece, NoWork{}); });
        } else {
            keep_sums<T, false>(0, call);
            pieces_.template add_sums<T>(
                kMaxSums, [&](int k) { return memory_[k].own(scalars); }, then);
        }
    }
    template <class T, class S, class Work, class Call>
    void over_pieces(S* scalars, Postponed<Work> then, Call&& call) {
        if (memory_[0].is_column) return over_pieces<T>(scalars, then.work, call);
        keep_sums<T, true>(kMaxSums, call);
    }
    template <class T, class S, class Before, class Work, class Call>
    void over_pieces(S* scalars, AfterPostponed<Before, Work> then, Call&& call) {
        if (memory_[0].is_column) return over_pieces<T>(scalars, then.work, call);
        keep_sums<T, false>(0, call);
        const UsePostponed<T, AfterPostponed<Before, Work>> work{then};
        pieces_.template add_sums<T>(
            kKeptSums, [&](int k) { return memory_[k].own(scalars); }, work);
    }

    // A call whose sums every piece keeps, from the `first` one of its kept sums on.
    template <class T, bool kArePostponed, class Call>
    void keep_sums(int first, Call&& call) {
        for (int k = 0; k < size(); ++k) {
            const KeepSums<Wide<T>, kArePostponed> keep{pieces_.template kept<Wide<T>>(k) + first};
            pieces_.on(k, [&](auto& queue) { call(queue, memory_[k], keep); });
        }
    }

    template <class T, int kReads, unsigned kMissing>
    static Reads<T, kReads, kMissing> moved(Reads<T, kReads, kMissing> reads, const SymmetricPiece& piece) {
        for (int k = 0; k < kReads; ++k) {
            const bool may_be_shared = (kMissing >> k & 1) != 0;
            reads.from[k] = may_be_shared ? piece.shared_vector(reads.from[k]) : piece.own_vector(reads.from[k]);
        }
        return reads;
    }
    template <class T, int kWrites>
    static Writes<T, kWrites> moved(Writes<T, kWrites> writes, const SymmetricPiece& piece) {
        for (int k = 0; k < kWrites; ++k) writes.to[k] = piece.own_vector(writes.to[k]);
        return writes;
    }
    template <class T>
    static Basis<T> moved(Basis<T> basis, const SymmetricPiece& piece) {
        return {piece.own_vector(basis.data), basis.stride};
    }

    Pieces& pieces_;
    std::vector<SymmetricPiece> memory_;
};

}  // namespace spmvgpu
