// How tsmv is built; see formats/builder.hpp. Its tiles: see tiles_build.hpp.
#pragma once

#include "core/passes/csr_passes.hpp"
#include "formats/builder.hpp"
#include "formats/csr/build.hpp"
#include "formats/shared/symmetry_build.hpp"
#include "formats/tsmv/layout.hpp"
#include "formats/tsmv/node_pattern_build.hpp"
#include "formats/tsmv/tiles_build.hpp"

namespace spmvgpu {

namespace tsmv_choice {

// Chooses what the tuning leaves open for this number of nodes, by measurements on an H200. tune="full" tries the other
// values.
void complete(TsmvTuning& tuning, index_t nodes, const Target& target, int value_bytes);

// Bytes of the arrays of a layout, with this many nodes in halos.
std::size_t array_bytes(const TsmvLayout& layout, index_t merge_nodes);

// Throws FormatError if these arrays and the sums of the halos take too much memory, or have too many slots.
void check_memory(const TsmvLayout& layout, index_t merge_nodes, std::size_t csr_bytes, double max_memory);

}  // namespace tsmv_choice

// The origin of the values of tsmv: for each place in `values`, and then in the remainder, the position of its value in
// CSR order, and then for each the position of that value's mirror image. In host memory.
namespace tsmv_sources {

constexpr index_t kPadding = -1;

// Encodes the position of a value whose mirror image is meant, and decodes it.
constexpr index_t mirror_of(index_t k) { return -2 - k; }
constexpr bool is_mirror(index_t source) { return source < kPadding; }
constexpr index_t position_of(index_t source) { return is_mirror(source) ? -2 - source : source; }

template <class T>
Array<index_t> find(const Tsmv<T>& tsmv);

}  // namespace tsmv_sources

template <class T, class Passes>
struct Builder<Tsmv<T>, Passes> {
    static TsmvPlan<T> plan_for(Passes& passes, const CsrMatrix<T>& csr, const TsmvTuning& asked,
                                const Target& target) {
        check_square(Tsmv<T>::kName, csr, asked.symmetry);
        TsmvPlan<T> plan;
        TsmvTuning& tuning = plan.tuning = asked;
        if (tuning.variant == TsmvVariant::kPoster) tuning.block = 1;
        const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        NodePattern pattern =
            find_nodes(passes, csr.rows, csr.nnz, row_offsets, cols, tuning.block, sizeof(T), sizeof(std::uint16_t));
        find_blocks(passes, row_offsets, cols, pattern);
        tuning.symmetry = find_symmetry(passes, Tsmv<T>::kName, csr, asked.symmetry, 0, [&](bool hermitian) {
            return blocks_are_mirrored(passes, csr, pattern, hermitian);
        });
        tuning.block = pattern.block;
        tsmv_choice::complete(tuning, pattern.nodes, target, sizeof(T));
        const TsmvLimits limits{tuning.variant, tuning.threads, tuning.threads * tuning.slices, tuning.block,
                                int(sizeof(T))};
        plan.layout = TsmvTiler<Passes>(passes, pattern, limits).lay_out();
        list_merges(passes, plan);
        const TsmvLayout& layout = plan.layout;
        const auto merges = static_cast<index_t>(plan.merge_nodes.size());
        tsmv_choice::check_memory(layout, merges, csr.bytes(), tuning.max_memory);
        const int block = tuning.block;
        plan.cost.bytes = tsmv_choice::array_bytes(layout, merges) + Tsmv<T>::halo_bytes(layout.halo, block);
        plan.cost.slots = layout.slots * block * block + layout.remainder;
        plan.cost.entries = layout.entries + layout.remainder;
        plan.cost.gathers = std::int64_t(layout.halo) * block + csr.rows + layout.remainder;
        if (target.device.is_gpu()) plan.cost.launches = (csr.rows > 0) + (merges > 0);
        if (layout.remainder > 0) {
            plan.remainder = take_remainder(passes, layout, csr, tuning.symmetry == Symmetry::kHermitian);
            plan.remainder_plan = Builder<Csr<T>, Passes>::plan_for(passes, plan.remainder, {}, target);
            plan.cost.bytes += plan.remainder_plan.cost.bytes - plan.remainder.bytes();
            plan.cost.launches += plan.remainder_plan.cost.launches;
        }
        return plan;
    }

    static Tsmv<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const TsmvPlan<T>& plan) {
        const TsmvLayout& layout = plan.layout;
        const NodePattern& pattern = layout.pattern;
        Tsmv<T> tsmv;
        tsmv.rows = csr.rows;
        tsmv.cols = csr.cols;
        tsmv.nnz = csr.nnz;
        tsmv.tuning = plan.tuning;
        tsmv.shared_bytes = static_cast<std::size_t>(layout.shared_bytes);
        tsmv.tiles = layout.tiles;
        if (!pattern.uniform()) tsmv.node_rows = copy_of(passes, pattern.rows);
        tsmv.halo_nodes = layout.halo_nodes;
        tsmv.slice_steps = layout.slice_steps;
        tsmv.step_offsets = layout.step_offsets;
        tsmv.merge_nodes = plan.merge_nodes;
        tsmv.merge_offsets = plan.merge_offsets;
        tsmv.merge_sources = plan.merge_sources;
        const Array<SlotBlock> slot_blocks = place_blocks(passes, layout, tsmv);
        place_values(passes, layout, csr, slot_blocks, tsmv);
        if (layout.remainder > 0) {
            tsmv.remainder = Builder<Csr<T>, Passes>::from_csr(passes, plan.remainder, plan.remainder_plan);
        }
        return tsmv;
    }

    // The node and the block of its pattern in a slot; none: -1. Public, because nvcc takes no lambdas for the GPU from
    // private functions.
    struct SlotBlock {
        index_t block, node;
    };

    // The columns of all slots, and the nodes of all threads.
    static Array<SlotBlock> place_blocks(Passes& passes, const TsmvLayout& layout, Tsmv<T>& tsmv) {
        const bool poster = layout.limits.is_poster();
        const index_t threads = layout.limits.threads;
        const auto slots = static_cast<index_t>(layout.slots);
        Array<SlotBlock> slot_blocks = passes.template scratch<SlotBlock>(slots);
        SlotBlock* const of_slot = slot_blocks.data();
        passes.fill(of_slot, slots, SlotBlock{-1, -1});
        tsmv.thread_nodes = passes.template make<std::uint16_t>(poster ? 0 : std::size_t(layout.slices) * threads);
        tsmv.columns = passes.template make<std::uint16_t>(poster ? 0 : slots);
        tsmv.coordinates = passes.template make<std::uint32_t>(poster ? slots : 0);
        std::uint16_t *const thread_nodes = tsmv.thread_nodes.data(), *const columns = tsmv.columns.data();
        std::uint32_t* const coordinates = tsmv.coordinates.data();
        passes.fill(thread_nodes, static_cast<std::int64_t>(tsmv.thread_nodes.size()), Tsmv<T>::kNoNode);
        passes.fill(columns, static_cast<std::int64_t>(tsmv.columns.size()), Tsmv<T>::kFake);
        passes.fill(coordinates, static_cast<std::int64_t>(tsmv.coordinates.size()), TsmvCoordinate::kFake);
        const TsmvTile* const tiles = layout.tiles.data();
        const index_t *const offsets = layout.pattern.offsets.data(), *const slice_steps = layout.slice_steps.data();
        const index_t* const step_offsets = layout.step_offsets.data();
        const Placement* const blocks = layout.blocks.data();
        const std::uint16_t* const positions = layout.positions.data();
        passes.each_in_step(
            layout.tile_count,
            [=] SPMVGPU_BODY(const typename Passes::Lanes& lanes, std::int64_t t) {
                const TsmvTile tile = tiles[t];
                const index_t halo = tiles[t + 1].halo - tile.halo;
                lanes.share(tiles[t + 1].node - tile.node, [&](index_t n) {
                    const index_t node = tile.node + n;
                    if (positions[node] == TsmvLayout::kNone) return;
                    const index_t slice = tile.slice + positions[node] / threads, thread = positions[node] % threads;
                    index_t last_slot = -1;
                    for (index_t k = offsets[node]; k < offsets[node + 1]; ++k) {
                        if (blocks[k].step == Placement::kDropped) continue;
                        const index_t slot = step_offsets[slice_steps[slice] + blocks[k].step] + thread;
                        of_slot[slot] = {k, node};
                        if (poster) {
                            coordinates[slot] = TsmvCoordinate::pack(n, blocks[k].column);
                        } else {
                            columns[slot] = blocks[k].column;
                        }
                        if (slot > last_slot) last_slot = slot;
                    }
                    if (!poster) {
                        thread_nodes[std::int64_t(slice) * threads + thread] = static_cast<std::uint16_t>(halo + n);
                    } else if (last_slot >= 0) {
                        coordinates[last_slot] |= TsmvCoordinate::kLast;
                    }
                });
            },
            kNanosecondsPerSlot * (slots / (layout.tile_count + 1)));
        return slot_blocks;
    }

    static void place_values(Passes& passes, const TsmvLayout& layout, const CsrMatrix<T>& csr,
                             const Array<SlotBlock>& slot_blocks, Tsmv<T>& tsmv) {
        const int width = layout.limits.block;
        tsmv.values = passes.template make<T>(static_cast<std::size_t>(layout.slots) * width * width);
        const Places to_places = places_of(tsmv);
        const SlotBlock* const of_slot = slot_blocks.data();
        const index_t *const first_rows = layout.pattern.rows.data(), *const columns = layout.pattern.columns.data();
        const index_t *const places = layout.pattern.places.data(), *const row_offsets = csr.row_offsets.data();
        const T* const values = csr.values.data();
        T* const to = tsmv.values.data();
        passes.each_entry(to_places.steps, to_places.step_offsets, to_places.slots,
                          [=] SPMVGPU_BODY(index_t step, index_t slot) {
                              const auto [k, node] = of_slot[slot];
                              const index_t row = k < 0 ? 0 : first_rows[node];
                              const index_t rows = k < 0 ? 0 : first_rows[node + 1] - row;
                              const index_t cols = k < 0 ? 0 : first_rows[columns[k] + 1] - first_rows[columns[k]];
                              for (int i = 0; i < width; ++i) {
                                  for (int j = 0; j < width; ++j) {
                                      to[to_places.in_values(step, slot, i * width + j)] =
                                          i < rows && j < cols ? values[row_offsets[row + i] + places[k] + j] : T(0);
                                  }
                              }
                          });
    }

    // A copy in memory that is not scratch.
    static Array<index_t> copy_of(Passes& passes, const Array<index_t>& array) {
        const auto n = static_cast<std::int64_t>(array.size());
        Array<index_t> copy = passes.template make<index_t>(n);
        index_t* const to = copy.data();
        const index_t* const from = array.data();
        passes.each(n, [=] SPMVGPU_BODY(std::int64_t i) { to[i] = from[i]; });
        return copy;
    }

    // For every node in halos, the places of its sums there, in order.
    static void list_merges(Passes& passes, TsmvPlan<T>& plan) {
        const index_t halo = plan.layout.halo, nodes = plan.layout.pattern.nodes;
        if (halo == 0) return;
        const index_t* const halo_nodes = plan.layout.halo_nodes.data();
        const Array<index_t> order =
            passes.order_by_key(halo, halo, nodes - 1, [=] SPMVGPU_BODY(index_t i) { return halo_nodes[i]; });
        const index_t* const from = order.data();
        plan.merge_sources = copy_of(passes, order);
        const Array<index_t> firsts = select(passes, halo, [=] SPMVGPU_BODY(std::int64_t i) {
            return i == 0 || halo_nodes[from[i]] != halo_nodes[from[i - 1]];
        });
        const auto merges = static_cast<std::int64_t>(firsts.size());
        plan.merge_nodes = passes.template make<index_t>(merges);
        plan.merge_offsets = passes.template make<index_t>(merges + 1);
        const index_t* const first = firsts.data();
        index_t *const merge_nodes = plan.merge_nodes.data(), *const offsets = plan.merge_offsets.data();
        passes.each(merges + 1, [=] SPMVGPU_BODY(std::int64_t m) {
            offsets[m] = m < merges ? first[m] : halo;
            if (m < merges) merge_nodes[m] = halo_nodes[from[first[m]]];
        });
    }

    // The entries of dropped blocks and their mirror images; the ones above the diagonal of blocks are computed from
    // the ones below, as in products with a tile.
    static CsrMatrix<T> take_remainder(Passes& passes, const TsmvLayout& layout, const CsrMatrix<T>& csr,
                                       bool hermitian) {
        const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        const T* const values = csr.values.data();
        const index_t* const nodes_before = layout.pattern.nodes_before.data();
        const index_t *const offsets = layout.pattern.offsets.data(), *const columns = layout.pattern.columns.data();
        const Placement* const blocks = layout.blocks.data();
        Array<index_t> places = passes.template scratch<index_t>(csr.nnz + std::size_t(1));
        index_t* const place = places.data();
        passes.each_entry(csr.rows, row_offsets, csr.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            const index_t node = node_of_row(nodes_before, row), column = node_of_row(nodes_before, cols[k]);
            const index_t lower = node > column ? node : column, left = node > column ? column : node;
            const auto block = first_not_below(columns, offsets[lower], offsets[lower + 1], left);
            place[k] = blocks[block].step == Placement::kDropped;
        });
        const index_t count = passes.scan(place, csr.nnz);
        CsrMatrix<T> rest{csr.rows,
                          csr.rows,
                          count,
                          passes.template make<index_t>(csr.rows + std::size_t(1)),
                          passes.template make<index_t>(count),
                          passes.template make<T>(count)};
        index_t *const rest_offsets = rest.row_offsets.data(), *const rest_cols = rest.col_indices.data();
        T* const rest_values = rest.values.data();
        passes.each(std::int64_t(csr.rows) + 1,
                    [=] SPMVGPU_BODY(std::int64_t row) { rest_offsets[row] = place[row_offsets[row]]; });
        const Mirror<T> mirror(hermitian);
        passes.each_entry(csr.rows, row_offsets, csr.nnz, [=] SPMVGPU_BODY(index_t row, index_t k) {
            if (place[k] == place[k + 1]) return;
            const index_t col = cols[k];
            const bool is_mirrored = node_of_row(nodes_before, col) > node_of_row(nodes_before, row);
            rest_cols[place[k]] = col;
            if (is_mirrored && hermitian) {
                rest_values[place[k]] =
                    mirror(values[first_not_below(cols, row_offsets[col], row_offsets[col + 1], row)]);
            } else {  // equal to the bit
                rest_values[place[k]] = values[k];
            }
        });
        return rest;
    }

    static Array<index_t> find_value_map(Passes&, const Tsmv<T>& tsmv) {
        Tsmv<T> on_host = tsmv;
        Tsmv<T>::each_array(on_host, [](const char*, auto& array) { array = array.to({}); });
        return tsmv_sources::find(on_host).to(tsmv.values.device());
    }

    static void store_values(Passes& passes, Tsmv<T>& tsmv, const index_t* map, const T* values) {
        const Places places = places_of(tsmv);
        check_symmetry(passes, tsmv, places, map, values);
        // A value that is its own mirror image is copied: on a GPU even a product by one changes the bits of a NaN.
        const bool hermitian = tsmv.tuning.symmetry == Symmetry::kHermitian;
        const Mirror<T> mirror = tsmv.mirror();
        T *const to = tsmv.values.data(), *const to_remainder = tsmv.remainder.values.data();
        passes.each_entry(places.steps, places.step_offsets, places.slots,
                          [=] SPMVGPU_BODY(index_t step, index_t slot) {
                              for (int i = 0; i < places.of_slot; ++i) {
                                  const std::int64_t place = places.in_values(step, slot, i);
                                  to[place] = map[place] == tsmv_sources::kPadding ? T(0) : values[map[place]];
                              }
                          });
        passes.each(tsmv.remainder.nnz, [=] SPMVGPU_BODY(std::int64_t k) {
            const index_t source = map[places.count + k];
            const T value = values[tsmv_sources::position_of(source)];
            to_remainder[k] = tsmv_sources::is_mirror(source) && hermitian ? mirror(value) : value;
        });
    }

    static constexpr std::int64_t kNanosecondsPerSlot = 5;

    // The places of `values`, slot by slot: the places of a slot take adjacent values.
    struct Places {
        index_t steps, slots;
        int of_slot;
        const index_t* step_offsets;
        std::int64_t count;

        constexpr std::int64_t in_values(index_t step, index_t slot, int i) const {
            const std::int64_t begin = step_offsets[step], slots_of_step = step_offsets[step + 1] - begin;
            return begin * of_slot + i * slots_of_step + slot - begin;
        }
    };

    static Places places_of(const Tsmv<T>& tsmv) {
        const int of_slot = tsmv.tuning.block * tsmv.tuning.block;
        const auto count = static_cast<std::int64_t>(tsmv.values.size());
        const auto steps = static_cast<index_t>(tsmv.step_offsets.size()) - 1;
        return {steps, static_cast<index_t>(count / of_slot), of_slot, tsmv.step_offsets.data(), count};
    }

    static constexpr bool is_mirrored(index_t source, index_t mirror, const T* values, bool hermitian) {
        return source == tsmv_sources::kPadding ||
               are_mirrored(values[tsmv_sources::position_of(source)], values[mirror], hermitian);
    }

    // Checks that new values have the symmetry that the plan found, because half of them stands for the others.
    static void check_symmetry(Passes& passes, const Tsmv<T>& tsmv, const Places& places, const index_t* map,
                               const T* values) {
        const bool hermitian = tsmv.tuning.symmetry == Symmetry::kHermitian;
        const std::int64_t all_places = places.count + tsmv.remainder.nnz;
        const index_t* const mirrors = map + all_places;
        Array<Mark> found = passes.template scratch<Mark>(1);
        Mark* const is_found = found.data();
        passes.fill(is_found, 1, Mark(0));
        passes.each_entry(places.steps, places.step_offsets, places.slots,
                          [=] SPMVGPU_BODY(index_t step, index_t slot) {
                              for (int i = 0; i < places.of_slot; ++i) {
                                  const std::int64_t place = places.in_values(step, slot, i);
                                  if (!is_mirrored(map[place], mirrors[place], values, hermitian)) set_mark(is_found);
                              }
                          });
        passes.each(tsmv.remainder.nnz, [=] SPMVGPU_BODY(std::int64_t k) {
            const std::int64_t place = places.count + k;
            if (!is_mirrored(map[place], mirrors[place], values, hermitian)) set_mark(is_found);
        });
        if (passes.read(is_found) == 0) return;
        const auto from_end = largest<std::int64_t>(passes, all_places, [=] SPMVGPU_BODY(std::int64_t i) {
            return is_mirrored(map[i], mirrors[i], values, hermitian) ? std::int64_t(0) : all_places - i;
        });
        const index_t k = tsmv_sources::position_of(passes.read(map + all_places - from_end));
        const index_t mirrored = passes.read(mirrors + all_places - from_end);
        refuse_new_values(Tsmv<T>::kName, k, mirrored, hermitian);
    }
};

}  // namespace spmvgpu
