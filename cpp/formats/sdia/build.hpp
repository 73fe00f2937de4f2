#pragma once

#include <algorithm>
#include <vector>

#include "core/passes/csr_passes.hpp"
#include "formats/builder.hpp"
#include "formats/dia/build.hpp"
#include "formats/sdia/layout.hpp"
#include "formats/shared/diagonal_places.hpp"
#include "formats/shared/symmetry_build.hpp"

namespace spmvgpu {

template <class T, class Passes>
struct Builder<Sdia<T>, Passes> {
    using OfDia = Builder<Dia<T>, Passes>;

    static SdiaPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const SdiaTuning& tuning, const Target& target) {
        SdiaPlan plan{tuning, {}, {}};
        const Array<index_t> all = OfDia::find_diagonals(passes, csr);
        const auto diagonals = static_cast<std::int64_t>(all.size()), stored = (diagonals + 1) / 2;
        const index_t main = csr.rows == csr.cols ? 0 : find_main_diagonal(passes, csr, all, tuning.symmetry);
        plan.before = diagonals == 0 ? 0 : std::min(main, passes.read(all.data() + (diagonals - 1)) - main);
        plan.first_col = main - plan.before;
        // This refuses too many diagonals before values are read. The diagonals of a symmetric matrix mirror each
        // other, so half of them, and the main one, are stored.
        plan.cost.slots = stored * aligned_pitch(csr.rows + plan.before);
        plan.cost.entries = count_stored(passes, csr, main);
        plan.cost.bytes = plan.cost.slots * sizeof(T) + stored * sizeof(index_t);
        check_padding(Sdia<T>::kName, plan.cost, tuning.max_padding, csr.bytes());
        plan.tuning.symmetry = find_symmetry(passes, Sdia<T>::kName, csr, tuning.symmetry, main);

        plan.offsets = passes.template make<index_t>(stored);
        plan.has_main = diagonals % 2 != 0;
        index_t* const offsets = plan.offsets.data();
        const index_t* const from = all.data() + (diagonals - stored);
        passes.each(stored, [=] SPMVGPU_BODY(std::int64_t d) { offsets[d] = from[d] - main; });
        const std::int64_t rows = csr.rows, cols = csr.cols - plan.first_col, before = plan.before;
        plan.cost.gathers = passes.template reduce<std::int64_t>(
            // Nanoseconds for the rows that have a slot of it, and of its mirror image.
            stored, [=] SPMVGPU_BODY(std::int64_t d) {
                const std::int64_t after = cols - before - offsets[d], mirrored = rows + before - offsets[d];
                return (after < rows ? after : rows) + (offsets[d] == 0 ? 0 : mirrored < rows ? mirrored : rows);
            });
        if (target.device.is_gpu()) plan.cost.launches = csr.rows > 0;
        return plan;
    }

    static Sdia<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const SdiaPlan& plan) {
        Sdia<T> sdia;
        sdia.rows = csr.rows;
        sdia.cols = csr.cols;
        sdia.nnz = csr.nnz;
        sdia.first_col = plan.first_col;
        sdia.before = plan.before;
        sdia.has_main = plan.has_main;
        sdia.tuning = plan.tuning;
        Dia<T>& upper = sdia.upper;
        upper.rows = csr.rows + plan.before;
        upper.cols = csr.cols - plan.first_col;
        upper.nnz = static_cast<index_t>(plan.cost.entries);
        upper.pitch = aligned_pitch(upper.rows);
        upper.padding = OfDia::find_padding(passes, csr.nnz, csr.values.data());
        upper.offsets = plan.offsets;
        upper.values = passes.template make<T>(plan.cost.slots);
        T* const to = upper.values.data();
        passes.fill(to, plan.cost.slots, T(std::bit_cast<Real<T>>(upper.padding)));
        const index_t *const offsets = plan.offsets.data(), *const cols = csr.col_indices.data();
        const auto diagonals = static_cast<std::int64_t>(plan.offsets.size());
        const std::int64_t pitch = upper.pitch;
        const index_t before = plan.before, first_col = plan.first_col;
        const T* const values = csr.values.data();
        const Mirror<T> mirror = sdia.mirror();
        passes.each_entry(csr.rows, csr.row_offsets.data(), csr.nnz, [=] SPMVGPU_BODY(index_t own_row, index_t k) {
            const index_t row = own_row + before, col = cols[k] - first_col;
            const bool is_upper = col >= row;
            if (!is_upper && col >= before) return;  // its mirror image is stored
            const std::int64_t d = first_not_below(offsets, 0, diagonals, is_upper ? col - row : row - col);
            to[d * pitch + (is_upper ? row : col)] = is_upper ? values[k] : mirror(values[k]);
        });
        return sdia;
    }

    // The entries of a row left of the main diagonal come first, beginning with the farthest diagonal. The map has the
    // places of these mirror images, and then the places of the stored entries.
    static Array<index_t> find_value_map(Passes& passes, const Sdia<T>& sdia) {
        const T* const slots = sdia.upper.values.data();
        const index_t* const offsets = sdia.upper.offsets.data();
        const std::int64_t pitch = sdia.upper.pitch, rows = sdia.upper.rows, before = sdia.before;
        const index_t diagonals = sdia.upper.diagonals(), mirrored = sdia.mirrored();
        const auto padding = sdia.upper.padding;
        const Array<index_t> row_offsets = sum_row_lengths(
            passes, sdia.rows,
            [=] SPMVGPU_BODY(index_t own_row) {
                const std::int64_t row = own_row + before;
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
            [=] SPMVGPU_BODY(std::int64_t row) {
                const bool is_own = row >= before && row < rows;
                const index_t k =
                    list_places(mirrors, pitch, row, mirrored, is_own ? starts[row - before] : 0, [=](index_t i) {
                        const index_t d = diagonals - 1 - i;
                        const std::int64_t at = row - offsets[d];
                        return is_own && at >= 0 && Dia<T>::bits(slots[d * pitch + at]) != padding;
                    });
                list_places(stored, pitch, row, diagonals, k,
                            [=](index_t d) { return Dia<T>::bits(slots[d * pitch + row]) != padding; });
            },
            2 * diagonals);
        return map;
    }

    static void store_values(Passes& passes, Sdia<T>& sdia, const index_t* map, const T* values) {
        const ValuePairs pairs = pairs_of(sdia, map);
        const bool has_zeros = check_values(passes, pairs, sdia, values);
        sdia.upper.padding =
            has_zeros ? typename OfDia::FreePattern(passes, sdia.nnz).find(passes, sdia.nnz, values) : 0;
        OfDia::spread_values(passes, sdia.upper, pairs.stored, values);
        if (sdia.before > 0) spread_mirror_images(passes, sdia, pairs, values);
    }

    // Positions in CSR order of stored entries and their mirror images.
    struct ValuePairs {
        index_t rows, before, diagonals;
        const index_t* offsets;
        DiagonalPlaces mirrors, stored;

        constexpr index_t mirror_of(index_t d, std::int64_t row) const {
            return mirrors.position(diagonals - 1 - d, row + offsets[d]);
        }

        // For the diagonals of a piece, the stored entry and its mirror image; -1 where an entry is in none of the
        // rows. Every entry of the matrix is in one piece.
        static constexpr int kMost = DiagonalPiece::kDiagonals;
        SPMVGPU_IN_BODY void find(const DiagonalPiece& piece, index_t (&own)[kMost], index_t (&mirrored)[kMost]) const {
            const Word there = stored.from(piece.begin, piece.row);
            index_t k = stored.position(piece.begin, piece.row);
            for (int j = 0; j < kMost; ++j) {
                own[j] = mirrored[j] = -1;
                if ((there >> j & 1) == 0) continue;
                const index_t d = piece.begin + j;
                if (piece.row >= before) own[j] = k;
                if (piece.row + offsets[d] < rows) mirrored[j] = offsets[d] == 0 ? k : mirror_of(d, piece.row);
                ++k;
            }
        }

        // Calls visit(k, mirrored) for the pairs of a piece in which both entries exist.
        template <class Visit>
        SPMVGPU_IN_BODY void each(const DiagonalPiece& piece, Visit visit) const {
            index_t own[kMost], mirrored[kMost];
            find(piece, own, mirrored);
            for (int j = 0; j < kMost; ++j) {
                if (own[j] >= 0 && mirrored[j] >= 0) visit(own[j], mirrored[j]);
            }
        }
    };

    static ValuePairs pairs_of(const Sdia<T>& sdia, const index_t* map) {
        const std::int64_t pitch = sdia.upper.pitch;
        const index_t* const stored = map + DiagonalPlaces::size(sdia.mirrored(), pitch);
        return {sdia.upper.rows,           sdia.before,  sdia.upper.diagonals(),
                sdia.upper.offsets.data(), {map, pitch}, {stored, pitch}};
    }

    static void spread_mirror_images(Passes& passes, Sdia<T>& sdia, const ValuePairs& pairs, const T* values) {
        const std::int64_t pitch = sdia.upper.pitch;
        T* const to = sdia.upper.values.data();
        const Mirror<T> mirror = sdia.mirror();
        passes.each(
            sdia.before,
            [=] SPMVGPU_BODY(std::int64_t row) {
                for (index_t d = 0; d < pairs.diagonals; ++d) {
                    if (pairs.stored.has(d, row)) to[d * pitch + row] = mirror(values[pairs.mirror_of(d, row)]);
                }
            },
            pairs.diagonals);
    }

    // Checks that new values have the symmetry that the plan found, because half of them stands for the others. Returns
    // true if any is 0, in its bits.
    static bool check_values(Passes& passes, const ValuePairs& pairs, const Sdia<T>& sdia, const T* values) {
        const bool hermitian = sdia.tuning.symmetry == Symmetry::kHermitian;
        const std::int64_t pieces = DiagonalPiece::count(pairs.diagonals, sdia.upper.pitch);
        constexpr std::int64_t kNanosecondsPerPiece = 8 * DiagonalPiece::kDiagonals;
        Array<Mark> marks = passes.template scratch<Mark>(2);
        Mark *const differ = marks.data(), *const is_zero = differ + 1;
        passes.fill(differ, 2, Mark(0));
        passes.each(
            pieces,
            [=] SPMVGPU_BODY(std::int64_t i) {
                constexpr int kMost = DiagonalPiece::kDiagonals;
                index_t own[kMost], mirrored[kMost];
                pairs.find(DiagonalPiece::at(i, pairs.diagonals), own, mirrored);
                T a[kMost], b[kMost];  // all are read before any is compared, so that the reads do not wait
                for (int j = 0; j < kMost; ++j) {
                    a[j] = own[j] >= 0 ? values[own[j]] : T(1);
                    b[j] = mirrored[j] >= 0 ? values[mirrored[j]] : T(1);
                }
                for (int j = 0; j < kMost; ++j) {
                    const bool are_both = own[j] >= 0 && mirrored[j] >= 0;
                    if (are_both && !are_mirrored(a[j], b[j], hermitian)) set_mark(differ);
                    if (Dia<T>::bits(a[j]) == 0 || Dia<T>::bits(b[j]) == 0) set_mark(is_zero);
                }
            },
            kNanosecondsPerPiece);
        const std::vector<Mark> found = passes.read_all(marks);
        if (found[0] == 0) return found[1] != 0;
        // The first such pair, by the distance from the end.
        const index_t nnz = sdia.nnz;
        const auto from_end = largest<index_t>(passes, pieces, [=] SPMVGPU_BODY(std::int64_t i) {
            index_t most = 0;
            pairs.each(DiagonalPiece::at(i, pairs.diagonals), [&](index_t k, index_t mirrored) {
                const bool is_farther = nnz - k > most && !are_mirrored(values[k], values[mirrored], hermitian);
                if (is_farther) most = nnz - k;
            });
            return most;
        });
        const index_t first = nnz - from_end;
        const auto mirror = largest<index_t>(passes, pieces, [=] SPMVGPU_BODY(std::int64_t i) {
            index_t there = 0;
            pairs.each(DiagonalPiece::at(i, pairs.diagonals), [&](index_t k, index_t mirrored) {
                if (k == first) there = mirrored;
            });
            return there;
        });
        refuse_new_values(Sdia<T>::kName, first, mirror, hermitian);
    }

    // Counts entries on and above the main diagonal, and the ones whose mirror images are in no row. Public, because
    // nvcc takes no lambdas for the GPU from private functions.
    static std::int64_t count_stored(Passes& passes, const CsrMatrix<T>& csr, index_t before) {
        const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        return passes.template reduce<std::int64_t>(csr.rows, [=] SPMVGPU_BODY(std::int64_t row) {
            const std::int64_t begin = row_offsets[row], end = row_offsets[row + 1];
            return end - first_not_below(cols, begin, end, row + before) +
                   (first_not_below(cols, begin, end, before) - begin);
        });
    }

    // The offset of the main diagonal, which the others mirror, in rows that may be a part of a symmetric matrix.
    static index_t find_main_diagonal(Passes& passes, const CsrMatrix<T>& csr, const Array<index_t>& diagonals,
                                      Symmetry asked) {
        const std::int64_t count = static_cast<std::int64_t>(diagonals.size());
        const index_t* const offsets = diagonals.data();
        const std::int64_t both =
            count == 0 ? 0 : std::int64_t(passes.read(offsets)) + passes.read(offsets + (count - 1));
        const auto unlike = passes.template reduce<std::int64_t>(count, [=] SPMVGPU_BODY(std::int64_t d) {
            return std::int64_t(offsets[d]) + offsets[count - 1 - d] != both;
        });
        const bool suits = count > 0 && unlike == 0 && both >= 0 && both % 2 == 0 && csr.rows + both / 2 <= csr.cols;
        if (!suits) check_square(Sdia<T>::kName, csr, asked);
        return static_cast<index_t>(both / 2);
    }
};

}  // namespace spmvgpu
