// How sdia is built; see builder.hpp.
#pragma once

#include <vector>

#include "formats/builder.hpp"
#include "formats/csr_passes.hpp"
#include "formats/dia_build.hpp"
#include "formats/diagonal_places.hpp"
#include "formats/sdia.hpp"
#include "formats/symmetry_build.hpp"

namespace spmvgpu {

template <class T, class Passes>
struct Builder<Sdia<T>, Passes> {
    using OfDia = Builder<Dia<T>, Passes>;

    static SdiaPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const SdiaTuning& tuning, const Target& target) {
        check_square(Sdia<T>::kName, csr, tuning.symmetry);
        SdiaPlan plan{tuning, {}, {}, false};
        const Array<index_t> all = OfDia::find_diagonals(passes, csr);
        const auto diagonals = static_cast<std::int64_t>(all.size()), stored = (diagonals + 1) / 2;
        // Before values are looked at: whether there are too many diagonals. Those of a symmetric matrix mirror each
        // other, so that half of them, and the one in the middle, are stored.
        plan.cost.slots = stored * aligned_pitch(csr.rows);
        plan.cost.entries = count_upper(passes, csr);
        plan.cost.bytes = plan.cost.slots * sizeof(T) + stored * sizeof(index_t);
        check_padding(Sdia<T>::kName, plan.cost, tuning.max_padding, csr.bytes());
        plan.tuning.symmetry = find_symmetry(passes, Sdia<T>::kName, csr, tuning.symmetry);

        plan.offsets = passes.template make<index_t>(stored);
        plan.has_main = diagonals % 2 != 0;
        index_t* const offsets = plan.offsets.data();
        const index_t* const from = all.data() + (diagonals - stored);
        passes.each(
            stored, SPMVGPU_BODY(std::int64_t d) { offsets[d] = from[d]; });
        const std::int64_t rows = csr.rows;
        plan.cost.gathers = passes.template reduce<std::int64_t>(
            stored, SPMVGPU_BODY(std::int64_t d) { return (rows - offsets[d]) * (offsets[d] > 0 ? 2 : 1); });
        if (target.device.is_cuda()) plan.cost.launches = csr.rows > 0;
        return plan;
    }

    static Sdia<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const SdiaPlan& plan) {
        Sdia<T> sdia;
        sdia.rows = csr.rows;
        sdia.cols = csr.cols;
        sdia.nnz = csr.nnz;
        sdia.has_main = plan.has_main;
        sdia.tuning = plan.tuning;
        Dia<T>& upper = sdia.upper;
        upper.rows = csr.rows;
        upper.cols = csr.cols;
        upper.nnz = static_cast<index_t>(plan.cost.entries);
        upper.pitch = aligned_pitch(csr.rows);
        upper.padding = OfDia::find_padding(passes, csr.nnz, csr.values.data());
        upper.offsets = plan.offsets;
        upper.values = passes.template make<T>(plan.cost.slots);
        T* const to = upper.values.data();
        passes.fill(to, plan.cost.slots, T(std::bit_cast<Real<T>>(upper.padding)));
        const index_t *const offsets = plan.offsets.data(), *const cols = csr.col_indices.data();
        const auto diagonals = static_cast<std::int64_t>(plan.offsets.size());
        const std::int64_t pitch = upper.pitch;
        const T* const values = csr.values.data();
        passes.each_entry(
            csr.rows, csr.row_offsets.data(), csr.nnz, SPMVGPU_BODY(index_t row, index_t k) {
                if (cols[k] < row) return;
                to[first_not_below(offsets, 0, diagonals, std::int64_t(cols[k]) - row) * pitch + row] = values[k];
            });
        return sdia;
    }

    // Of a row's entries those left of the main diagonal come first, the farthest diagonal being the first of them. The
    // map has the places of these mirror images, and then those of what is stored.
    static Array<index_t> find_value_map(Passes& passes, const Sdia<T>& sdia) {
        const T* const slots = sdia.upper.values.data();
        const index_t* const offsets = sdia.upper.offsets.data();
        const std::int64_t pitch = sdia.upper.pitch, rows = sdia.rows;
        const index_t diagonals = sdia.upper.diagonals(), mirrored = sdia.mirrored();
        const auto padding = sdia.upper.padding;
        const Array<index_t> row_offsets = sum_row_lengths(
            passes, sdia.rows,
            SPMVGPU_BODY(index_t row) {
                index_t length = 0;
                for (index_t d = 0; d < diagonals; ++d) {
                    length += Dia<T>::bits(slots[d * pitch + row]) != padding;
                    if (offsets[d] == 0 || offsets[d] > row) continue;
                    length += Dia<T>::bits(slots[d * pitch + row - offsets[d]]) != padding;
                }
                return length;
            },
            2 * diagonals);
        const index_t* const starts = row_offsets.data();
        const std::size_t of_mirrors = DiagonalPlaces::size(mirrored, pitch);
        Array<index_t> map = passes.template make<index_t>(of_mirrors + DiagonalPlaces::size(diagonals, pitch));
        index_t *const mirrors = map.data(), *const stored = map.data() + of_mirrors;
        passes.each(
            pitch,
            SPMVGPU_BODY(std::int64_t row) {
                const index_t k =
                    list_places(mirrors, pitch, row, mirrored, row < rows ? starts[row] : 0, [=](index_t i) {
                        const index_t d = diagonals - 1 - i;
                        const std::int64_t at = row - offsets[d];
                        return row < rows && at >= 0 && Dia<T>::bits(slots[d * pitch + at]) != padding;
                    });
                list_places(stored, pitch, row, diagonals, k,
                            [=](index_t d) { return Dia<T>::bits(slots[d * pitch + row]) != padding; });
            },
            2 * diagonals);
        return map;
    }

    static void store_values(Passes& passes, Sdia<T>& sdia, const index_t* map, const T* values) {
        const ValuePairs pairs = pairs_of(sdia, map);
        check_symmetry(passes, pairs, sdia, values);
        sdia.upper.padding = OfDia::find_padding(passes, sdia.nnz, values);
        OfDia::spread_values(passes, sdia.upper, pairs.stored, values);
    }

    // Positions in CSR order of what is stored and of its mirror image.
    struct ValuePairs {
        index_t diagonals;
        const index_t* offsets;
        DiagonalPlaces mirrors, stored;

        // Calls visit(k, mirrored) for the entries of a piece.
        template <class Visit>
        SPMVGPU_IN_BODY void each(const DiagonalPiece& piece, Visit visit) const {
            index_t k = stored.position(piece.begin, piece.row);
            for (index_t d = piece.begin; d < piece.end; ++d) {
                if (!stored.has(d, piece.row)) continue;
                const bool is_main = offsets[d] == 0;
                visit(k, is_main ? k : mirrors.position(diagonals - 1 - d, piece.row + offsets[d]));
                ++k;
            }
        }
    };

    static ValuePairs pairs_of(const Sdia<T>& sdia, const index_t* map) {
        const std::int64_t pitch = sdia.upper.pitch;
        const index_t* const stored = map + DiagonalPlaces::size(sdia.mirrored(), pitch);
        return {sdia.upper.diagonals(), sdia.upper.offsets.data(), {map, pitch}, {stored, pitch}};
    }

    // Half of the values stands for the others, so these must be as the plan found the first ones to be.
    static void check_symmetry(Passes& passes, const ValuePairs& pairs, const Sdia<T>& sdia, const T* values) {
        const bool hermitian = sdia.tuning.symmetry == Symmetry::kHermitian;
        const std::int64_t pieces = DiagonalPiece::count(pairs.diagonals, sdia.upper.pitch);
        constexpr std::int64_t kNanosecondsPerPiece = 8 * DiagonalPiece::kDiagonals;
        Array<Mark> found = passes.template scratch<Mark>(1);
        Mark* const is_found = found.data();
        passes.fill(is_found, 1, Mark(0));
        passes.each(
            pieces,
            SPMVGPU_BODY(std::int64_t i) {
                pairs.each(DiagonalPiece::at(i, pairs.diagonals), [=](index_t k, index_t mirrored) {
                    if (!are_mirrored(values[k], values[mirrored], hermitian)) set_mark(is_found);
                });
            },
            kNanosecondsPerPiece);
        if (passes.read(is_found) == 0) return;
        // The first one, by the distance from the end, and its mirror image.
        const index_t nnz = sdia.nnz;
        const auto from_end = largest<index_t>(
            passes, pieces, SPMVGPU_BODY(std::int64_t i) {
                index_t most = 0;
                pairs.each(DiagonalPiece::at(i, pairs.diagonals), [&](index_t k, index_t mirrored) {
                    const bool is_farther = nnz - k > most && !are_mirrored(values[k], values[mirrored], hermitian);
                    if (is_farther) most = nnz - k;
                });
                return most;
            });
        const index_t first = nnz - from_end;
        const auto mirror = largest<index_t>(
            passes, pieces, SPMVGPU_BODY(std::int64_t i) {
                index_t there = 0;
                pairs.each(DiagonalPiece::at(i, pairs.diagonals), [&](index_t k, index_t mirrored) {
                    if (k == first) there = mirrored;
                });
                return there;
            });
        refuse_new_values(Sdia<T>::kName, first, mirror, hermitian);
    }

    // Public, as all of this is: nvcc takes no lambdas for the GPU from private functions.
    // Entries on and above the main diagonal.
    static std::int64_t count_upper(Passes& passes, const CsrMatrix<T>& csr) {
        const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        return passes.template reduce<std::int64_t>(
            csr.rows, SPMVGPU_BODY(std::int64_t row) {
                const std::int64_t begin = row_offsets[row], end = row_offsets[row + 1];
                return end - first_not_below(cols, begin, end, row);
            });
    }
};

}  // namespace spmvgpu
