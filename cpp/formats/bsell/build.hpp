#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "core/passes/csr_passes.hpp"
#include "core/passes/divisor.hpp"
#include "core/passes/lanes.hpp"
#include "formats/bsell/layout.hpp"
#include "formats/builder.hpp"
#include "formats/feature_passes.hpp"
#include "formats/padding.hpp"
#include "formats/shared/slices_build.hpp"

namespace spmvgpu {

namespace bsell_choice {

[[noreturn]] void refuse_size(std::size_t csr_bytes);

}  // namespace bsell_choice

// The blocks of a matrix in CSR, by the place of their block row in the slices.
struct BlocksOfCsr {
    index_t block_rows, block;
    Divisor divisor;  // by the block
    const index_t* permutation;
    const index_t *row_offsets, *cols;

    SPMVGPU_IN_BODY index_t row_at(index_t i) const { return block * (permutation == nullptr ? i : permutation[i]); }
    SPMVGPU_IN_BODY index_t row_length(index_t row) const { return row_offsets[row + 1] - row_offsets[row]; }
    // The first entry of its j-th block, in CSR order; -1 if there is none.
    SPMVGPU_IN_BODY index_t entry(index_t i, index_t j) const {
        if (i >= block_rows) return -1;
        const index_t row = row_at(i);
        return std::int64_t(j) * block < row_length(row) ? row_offsets[row] + j * block : -1;
    }
    SPMVGPU_IN_BODY index_t column(index_t i, index_t j) const {
        const index_t k = entry(i, j);
        return k < 0 ? -1 : static_cast<index_t>(divisor.quotient(cols[k]));
    }
};

template <class T, class Passes>
struct Builder<Bsell<T>, Passes> {
    using Lanes = typename Passes::Lanes;
    static constexpr std::int64_t kNanosecondsPerSlice = 2000;
    static constexpr index_t kNone = std::numeric_limits<index_t>::max();

    static BsellPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const BsellTuning& tuning,
                              const Target& target) {
        BsellPlan plan;
        plan.tuning = tuning;
        plan.block = choose_block(passes, csr, tuning.max_block);
        const index_t block = plan.block, block_rows = csr.rows / block;
        const Array<index_t> offsets = block_offsets(passes, csr, block);
        const SliceTimes times({.costs = kBsellCosts,
                                .asked_warps = tuning.warps_per_slice,
                                .most_warps = BsellTuning::kMostWarps,
                                .slot_bytes = double(block * block * sizeof(T) + sizeof(std::uint16_t)),
                                .max_padding = tuning.max_padding,
                                .block = block,
                                .in_flight = double(Bsell<T>::in_flight(block))},
                               feature_passes::for_options(passes, any_csr(csr), target), sizeof(T), target);
        plan.slices =
            cut_into_slices(passes, block_rows, csr.nnz / (block * block), offsets.data(), tuning.sigma, times);
        plan.tuning.sigma = plan.slices.sigma;
        const std::int64_t places = plan.slices.slots;
        plan.cost.slots = places * block * block;
        plan.cost.entries = csr.nnz;
        plan.cost.gathers = csr.nnz / block;
        plan.cost.stores_in_order = plan.slices.permutation.size() == 0;
        if (target.device.is_gpu()) plan.cost.launches = csr.rows > 0;
        check_padding(Bsell<T>::kName, plan.cost, tuning.max_padding, csr.bytes());
        if (places > kNone) bsell_choice::refuse_size(csr.bytes());
        count_far_slots(passes, csr, plan);
        const std::int64_t slots = places / kSliceLanes;
        plan.cost.bytes = plan.slices.offsets.size() * sizeof(index_t) + slots * sizeof(index_t) +
                          places * sizeof(std::uint16_t) + std::size_t(plan.far_slots) * kSliceLanes * sizeof(index_t) +
                          plan.cost.slots * sizeof(T) + plan.slices.permutation.bytes();
        plan.tuning.warps_per_slice = times.fastest_warps(plan.slices, static_cast<double>(plan.cost.bytes));
        return plan;
    }

    static Bsell<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const BsellPlan& plan) {
        Bsell<T> bsell;
        bsell.rows = csr.rows;
        bsell.cols = csr.cols;
        bsell.nnz = csr.nnz;
        bsell.tuning = plan.tuning;
        bsell.block = plan.block;
        bsell.slices = plan.slices.count();
        const auto places = static_cast<index_t>(plan.slices.slots);
        bsell.slice_offsets = passes.template make<index_t>(plan.slices.offsets.size());
        bsell.bases = passes.template make<index_t>(places / kSliceLanes);
        bsell.near_cols = passes.template make<std::uint16_t>(places);
        bsell.far_cols = passes.template make<index_t>(std::size_t(plan.far_slots) * kSliceLanes);
        bsell.values = passes.template make<T>(plan.cost.slots);
        bsell.permutation = plan.slices.permutation;
        index_t* const slice_offsets = bsell.slice_offsets.data();
        const std::int64_t* const wide_offsets = plan.slices.offsets.data();
        passes.each(std::int64_t(bsell.slices) + 1,
                    [=] SPMVGPU_BODY(std::int64_t s) { slice_offsets[s] = static_cast<index_t>(wide_offsets[s]); });
        const BlocksOfCsr blocks = blocks_of(bsell, csr.row_offsets.data(), csr.col_indices.data());
        const index_t* const far_offsets = plan.far_offsets.data();
        index_t *const bases = bsell.bases.data(), *const far_cols = bsell.far_cols.data();
        std::uint16_t* const near_cols = bsell.near_cols.data();
        passes.each_in_step(
            bsell.slices,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t s) {
                const index_t first = static_cast<index_t>(s) * kSliceLanes;
                const index_t begin = slice_offsets[s] / kSliceLanes, end = slice_offsets[s + 1] / kSliceLanes;
                index_t wide = far_offsets[s];
                for (index_t slot = begin; slot < end; ++slot) {
                    const index_t base = near_base(lanes, blocks, first, slot - begin);
                    lanes.once([&] { bases[slot] = base >= 0 ? base : ~wide; });
                    lanes.each([&](int lane) {
                        const index_t column = blocks.column(first + lane, slot - begin);
                        const bool is_near = base >= 0 && column >= 0;
                        near_cols[std::int64_t(slot) * kSliceLanes + lane] =
                            is_near ? static_cast<std::uint16_t>(column - base) : Bsell<T>::kPadding;
                        if (base < 0) far_cols[std::int64_t(wide) * kSliceLanes + lane] = column;
                    });
                    wide += base < 0;
                }
            },
            kNanosecondsPerSlice);
        Array<index_t> slice_of = passes.template scratch<index_t>(bsell.bases.size());
        number_slots(passes, bsell, slice_of.data());
        spread_values(passes, bsell, csr.row_offsets.data(), slice_of.data(), csr.values.data());
        return bsell;
    }

    // The map says where rows begin in CSR order, and then to which slice each slot belongs.
    static Array<index_t> find_value_map(Passes& passes, const Bsell<T>& bsell) {
        const BlockColumns columns = columns_of(bsell);
        const index_t* const slice_offsets = bsell.slice_offsets.data();
        const BlocksOfCsr blocks = blocks_of(bsell, nullptr, nullptr);
        Array<index_t> map = passes.template make<index_t>(bsell.rows + std::size_t(1) + bsell.bases.size());
        index_t* const lengths = map.data();
        passes.each(
            blocks.block_rows,
            [=] SPMVGPU_BODY(std::int64_t place) {
                const auto i = static_cast<index_t>(place);
                const index_t begin = slice_offsets[i / kSliceLanes] / kSliceLanes;
                const index_t end = slice_offsets[i / kSliceLanes + 1] / kSliceLanes;
                index_t slot = begin;
                while (slot < end && columns.at(slot, i % kSliceLanes) >= 0) ++slot;
                for (index_t r = 0; r < blocks.block; ++r)
                    lengths[blocks.row_at(i) + r] = (slot - begin) * blocks.block;
            },
            kNanosecondsPerSlice / kSliceLanes);
        passes.scan(lengths, bsell.rows);
        number_slots(passes, bsell, lengths + bsell.rows + 1);
        return map;
    }

    static void store_values(Passes& passes, Bsell<T>& bsell, const index_t* map, const T* values) {
        spread_values(passes, bsell, map, map + bsell.rows + 1, values);
    }

    static void number_slots(Passes& passes, const Bsell<T>& bsell, index_t* slice_of) {
        const index_t* const slice_offsets = bsell.slice_offsets.data();
        passes.each_in_step(
            bsell.slices,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t s) {
                const index_t begin = slice_offsets[s] / kSliceLanes, end = slice_offsets[s + 1] / kSliceLanes;
                lanes.share(end - begin, [&](index_t j) { slice_of[begin + j] = static_cast<index_t>(s); });
            },
            kSliceLanes);
    }

    // A thread takes a row of a block. Its values are neighbours in CSR, and it reads all of them before it stores any,
    // so that the reads do not wait for each other. In the format, the values of neighbouring blocks are neighbours,
    // and neighbouring threads store them.
    static void spread_values(Passes& passes, Bsell<T>& bsell, const index_t* row_offsets, const index_t* slice_of,
                              const T* values) {
        const BlocksOfCsr blocks = blocks_of(bsell, row_offsets, nullptr);
        const index_t* const slice_offsets = bsell.slice_offsets.data();
        T* const to = bsell.values.data();
        passes.each(
            static_cast<std::int64_t>(bsell.bases.size()) * blocks.block * kSliceLanes,
            [=] SPMVGPU_BODY(std::int64_t i) {
                constexpr int kMost = BsellTuning::kBlocks[0];
                const auto lane = static_cast<index_t>(i % kSliceLanes), line = static_cast<index_t>(i / kSliceLanes);
                const auto slot = static_cast<index_t>(blocks.divisor.quotient(line));
                const index_t block = blocks.block, r = line - slot * block, slice = slice_of[slot];
                const index_t place = slice * kSliceLanes + lane;
                const index_t first = blocks.entry(place, slot - slice_offsets[slice] / kSliceLanes);
                const T* const from =
                    first < 0 ? values : values + first + std::int64_t(r) * blocks.row_length(blocks.row_at(place));
                T row[kMost];
                for (int c = 0; c < kMost; ++c) row[c] = first >= 0 && c < block ? from[c] : T(0);
                T* const at = to + entry_offset(slot, block, r, 0) + lane;
                for (int c = 0; c < kMost; ++c) {
                    if (c < block) at[c * kSliceLanes] = row[c];
                }
            },
            2 * blocks.block);
    }

    static int choose_block(Passes& passes, const CsrMatrix<T>& csr, int most) {
        for (const int block : BsellTuning::kBlocks) {
            if (block <= most && consists_of_blocks(passes, csr, block)) return block;
        }
        return 1;
    }

    // Returns true if the rows of each block row have equal columns, which come in whole blocks.
    static bool consists_of_blocks(Passes& passes, const CsrMatrix<T>& csr, index_t block) {
        if (csr.rows % block != 0 || csr.cols % block != 0 || csr.nnz % (block * block) != 0) return false;
        const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        const Divisor divisor(block);
        const auto others = passes.template reduce<std::int64_t>(csr.rows, [=] SPMVGPU_BODY(std::int64_t row) {
            const std::int64_t first = row - divisor.remainder(row);
            const index_t length = row_offsets[row + 1] - row_offsets[row];
            return divisor.remainder(length) != 0 || length != row_offsets[first + 1] - row_offsets[first];
        });
        return others == 0 &&
               !any_entry(passes, csr.rows, row_offsets, csr.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
                   const index_t i = k - row_offsets[row], in_block = divisor.remainder(row);
                   if (in_block != 0) return cols[k] != cols[row_offsets[row - in_block] + i];
                   const index_t c = divisor.remainder(cols[k]);
                   if (c > i || cols[k - c] != cols[k] - c) return true;  // columns ascend, so all before it are there
                   return c + 1 < block && (k + 1 == row_offsets[row + 1] || cols[k + 1] != cols[k] + 1);
               });
    }

    static Array<index_t> block_offsets(Passes& passes, const CsrMatrix<T>& csr, index_t block) {
        const index_t* const row_offsets = csr.row_offsets.data();
        const std::int64_t count = csr.rows / block + std::int64_t(1);
        Array<index_t> offsets = passes.template scratch<index_t>(count);
        index_t* const to = offsets.data();
        passes.each(count, [=] SPMVGPU_BODY(std::int64_t i) { to[i] = row_offsets[i * block] / (block * block); });
        return offsets;
    }

    static BlocksOfCsr blocks_of(const Bsell<T>& bsell, const index_t* row_offsets, const index_t* cols) {
        const index_t* const permutation = bsell.permutation.size() > 0 ? bsell.permutation.data() : nullptr;
        return {bsell.block_rows(), bsell.block, Divisor(bsell.block), permutation, row_offsets, cols};
    }

    // The least column of slot j of the slice that begins at a place, if all are near it; else -1.
    static SPMVGPU_IN_BODY index_t near_base(const Lanes& lanes, const BlocksOfCsr& blocks, index_t first, index_t j) {
        const index_t least = lanes.least([&](int lane) {
            const index_t column = blocks.column(first + lane, j);
            return column < 0 ? kNone : column;
        });
        const index_t largest = lanes.largest([&](int lane) { return blocks.column(first + lane, j); });
        return largest - least < Bsell<T>::kPadding ? least : -1;
    }

    static void count_far_slots(Passes& passes, const CsrMatrix<T>& csr, BsellPlan& plan) {
        const index_t slices = plan.slices.count();
        const index_t* const permutation =
            plan.slices.permutation.size() > 0 ? plan.slices.permutation.data() : nullptr;
        const BlocksOfCsr blocks{csr.rows / plan.block,  plan.block,
                                 Divisor(plan.block),    permutation,
                                 csr.row_offsets.data(), csr.col_indices.data()};
        const std::int64_t* const offsets = plan.slices.offsets.data();
        plan.far_offsets = passes.template scratch<index_t>(slices + std::size_t(1));
        index_t* const counts = plan.far_offsets.data();
        passes.each_in_step(
            slices,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t s) {
                const auto width = static_cast<index_t>((offsets[s + 1] - offsets[s]) / kSliceLanes);
                index_t wide = 0;
                for (index_t j = 0; j < width; ++j) {
                    wide += near_base(lanes, blocks, static_cast<index_t>(s) * kSliceLanes, j) < 0;
                }
                lanes.once([&] { counts[s] = wide; });
            },
            kNanosecondsPerSlice);
        plan.far_slots = passes.scan(counts, slices);
    }
};

}  // namespace spmvgpu
