#pragma once

#include <limits>

#include "core/passes/csr_passes.hpp"
#include "formats/builder.hpp"
#include "formats/dia/layout.hpp"
#include "formats/shared/diagonal_places.hpp"

namespace spmvgpu {

template <class T, class Passes>
struct Builder<Dia<T>, Passes> {
    using Bits = typename Dia<T>::Bits;

    static DiaPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const PaddedTuning& tuning, const Target& target) {
        DiaPlan plan{tuning, {}, find_diagonals(passes, csr)};
        const auto diagonals = static_cast<std::int64_t>(plan.offsets.size());
        plan.cost.slots = diagonals * aligned_pitch(csr.rows);
        plan.cost.entries = csr.nnz;
        plan.cost.bytes = plan.cost.slots * sizeof(T) + diagonals * sizeof(index_t);
        check_padding(Dia<T>::kName, plan.cost, tuning.max_padding, csr.bytes());
        const index_t* const offsets = plan.offsets.data();
        const std::int64_t rows = csr.rows, cols = csr.cols;
        plan.cost.gathers = passes.template reduce<std::int64_t>(
            // The length of the diagonal: entries and padding are both read.
            diagonals, [=] SPMVGPU_BODY(std::int64_t d) {
                const std::int64_t offset = offsets[d], end = rows < cols - offset ? rows : cols - offset;
                return end - (offset < 0 ? -offset : 0);
            });
        if (target.device.is_gpu()) plan.cost.launches = csr.rows > 0;
        return plan;
    }

    static Dia<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const DiaPlan& plan) {
        Dia<T> dia;
        dia.rows = csr.rows;
        dia.cols = csr.cols;
        dia.nnz = csr.nnz;
        dia.pitch = aligned_pitch(csr.rows);
        dia.padding = find_padding(passes, csr.nnz, csr.values.data());
        dia.offsets = plan.offsets;
        dia.values = passes.template make<T>(plan.cost.slots);
        dia.tuning = plan.tuning;
        T* const to = dia.values.data();
        passes.fill(to, plan.cost.slots, T(std::bit_cast<Real<T>>(dia.padding)));
        const index_t *const offsets = plan.offsets.data(), *const cols = csr.col_indices.data();
        const index_t* const row_offsets = csr.row_offsets.data();
        const auto diagonals = static_cast<std::int64_t>(plan.offsets.size());
        const std::int64_t pitch = dia.pitch;
        const T* const values = csr.values.data();
        passes.each_entry(csr.rows, row_offsets, csr.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            // Each of the row's other entries has a diagonal of its own, so the range to search is short or empty.
            const index_t begin = k - row_offsets[row], after = row_offsets[row + 1] - 1 - k;
            const std::int64_t d = first_not_below(offsets, begin, diagonals - after - 1, cols[k] - row);
            to[d * pitch + row] = values[k];
        });
        return dia;
    }

    static Array<index_t> find_value_map(Passes& passes, const Dia<T>& dia) {
        const T* const slots = dia.values.data();
        const std::int64_t pitch = dia.pitch, rows = dia.rows;
        const index_t diagonals = dia.diagonals();
        const Bits padding = dia.padding;
        const Array<index_t> row_offsets = sum_row_lengths(
            passes, dia.rows,
            [=] SPMVGPU_BODY(index_t row) {
                index_t length = 0;
                for (index_t d = 0; d < diagonals; ++d) length += Dia<T>::bits(slots[d * pitch + row]) != padding;
                return length;
            },
            diagonals);
        const index_t* const offsets = row_offsets.data();
        Array<index_t> map = passes.template make<index_t>(DiagonalPlaces::size(diagonals, pitch));
        index_t* const words = map.data();
        passes.each(
            pitch,
            [=] SPMVGPU_BODY(std::int64_t row) {
                list_places(words, pitch, row, diagonals, row < rows ? offsets[row] : 0,
                            [=](index_t d) { return Dia<T>::bits(slots[d * pitch + row]) != padding; });
            },
            diagonals);
        return map;
    }

    // Padding stays padding, though its bits may become others. If these are 0 they nearly always stay so, and the pass
    // that stores the values finds out if one is 0; then they are stored once more. All memory is allocated before.
    static void store_values(Passes& passes, Dia<T>& dia, const index_t* map, const T* values) {
        const DiagonalPlaces places{map, dia.pitch};
        FreePattern free(passes, dia.nnz);
        if (dia.padding == 0) {
            Array<Mark> found = passes.template scratch<Mark>(1);
            passes.fill(found.data(), 1, Mark(0));
            spread_values(passes, dia, places, values, found.data());
            if (passes.read(found.data()) == 0) return;
            dia.padding = free.find(passes, dia.nnz, values);
        } else {
            dia.padding = has_zeros(passes, dia.nnz, values) ? free.find(passes, dia.nnz, values) : 0;
        }
        spread_values(passes, dia, places, values);
    }

    // Stores the values; sets the mark, if there is one, if the bits of a value are 0.
    static void spread_values(Passes& passes, Dia<T>& dia, DiagonalPlaces places, const T* values,
                              Mark* has_zero = nullptr) {
        const T padding = T(std::bit_cast<Real<T>>(dia.padding));
        const std::int64_t pitch = dia.pitch;
        const index_t diagonals = dia.diagonals();
        T* const to = dia.values.data();
        passes.each(
            DiagonalPiece::count(diagonals, pitch),
            [=] SPMVGPU_BODY(std::int64_t i) {
                constexpr int kMost = DiagonalPiece::kDiagonals;
                const DiagonalPiece piece = DiagonalPiece::at(i, diagonals);
                const Word there = places.from(piece.begin, piece.row);
                index_t k = places.position(piece.begin, piece.row);
                T found[kMost];  // all are read before any is stored, so that the reads do not wait for each other
                bool is_zero = false;
                for (int j = 0; j < kMost; ++j) {
                    const bool is_there = (there >> j & 1) != 0;
                    found[j] = is_there ? values[k] : padding;
                    k += is_there;
                }
                for (int j = 0; j < kMost; ++j) {
                    is_zero = is_zero || ((there >> j & 1) != 0 && Dia<T>::bits(found[j]) == 0);
                }
                if (has_zero != nullptr && is_zero) set_mark(has_zero);
                T* const at = to + piece.begin * pitch + piece.row;
                for (int j = 0; j < kMost; ++j) {
                    if (piece.begin + j < piece.end) at[j * pitch] = found[j];
                }
            },
            2 * DiagonalPiece::kDiagonals);
    }

    // Offsets of the diagonals that hold an entry. Needs a bit for each possible diagonal, an eighth of a byte per row
    // and column, while it counts.
    static Array<index_t> find_diagonals(Passes& passes, const CsrMatrix<T>& csr) {
        // Diagonal i has the offset i - rows + 1.
        const std::int64_t possible = std::int64_t(csr.rows) + csr.cols, main = std::int64_t(csr.rows) - 1;
        Array<Word> used = passes.template scratch<Word>(words_for(possible));
        Word* const words = used.data();
        const index_t* const cols = csr.col_indices.data();
        passes.fill(words, words_for(possible), Word(0));
        passes.each_entry(csr.rows, csr.row_offsets.data(), csr.nnz,
                          [=] SPMVGPU_BODY(index_t row, index_t k) { add_to_set(words, cols[k] - row + main); });
        return list_set(passes, words, possible, main);
    }

    // A bit pattern that no value has, in its real part if it is complex: 0, or another one.
    static Bits find_padding(Passes& passes, index_t nnz, const T* values) {
        if (!has_zeros(passes, nnz, values)) return 0;
        return FreePattern(passes, nnz).find(passes, nnz, values);
    }

    static bool has_zeros(Passes& passes, index_t nnz, const T* values) {
        const auto zeros = passes.template reduce<std::int64_t>(
            nnz, [=] SPMVGPU_BODY(std::int64_t k) { return Dia<T>::bits(values[k]) == 0; });
        return zeros != 0;
    }

    // Finds the first bit pattern that no value has out of a series of candidates that is longer than the values are.
    // The search allocates no memory beyond this object's.
    class FreePattern {
    public:
        FreePattern(Passes& passes, index_t nnz)
            : used_(passes.template scratch<Word>(words_for(std::int64_t(nnz) + 1))),
              first_(passes.template scratch<index_t>(1)) {}

        Bits find(Passes& passes, index_t nnz, const T* values) {
            constexpr Bits kFirst = std::bit_cast<Bits>(std::numeric_limits<Real<T>>::quiet_NaN()) + 1;
            const std::int64_t candidates = std::int64_t(nnz) + 1;
            Word* const words = used_.data();
            index_t* const first = first_.data();
            passes.fill(words, words_for(candidates), Word(0));
            passes.fill(first, 1, nnz);
            passes.each(nnz, [=] SPMVGPU_BODY(std::int64_t k) {
                const Bits candidate = Dia<T>::bits(values[k]) - kFirst;  // wraps around, as the sum below does
                const bool is_candidate = candidate < static_cast<Bits>(candidates);
                if (is_candidate) add_to_set(words, static_cast<std::int64_t>(candidate));
            });
            passes.each(candidates, [=] SPMVGPU_BODY(std::int64_t i) {
                if ((words[i / kWordBits] >> i % kWordBits & 1) == 0) lower(first, static_cast<index_t>(i));
            });
            return kFirst + static_cast<Bits>(passes.read(first));
        }

    private:
        Array<Word> used_;
        Array<index_t> first_;
    };
};

}  // namespace spmvgpu
