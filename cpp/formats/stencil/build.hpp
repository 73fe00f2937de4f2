#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/passes/csr_passes.hpp"
#include "core/passes/lanes.hpp"
#include "formats/builder.hpp"
#include "formats/stencil/kinds.hpp"
#include "formats/stencil/layout.hpp"
#include "formats/stencil/relative_rows.hpp"

namespace spmvgpu {

namespace stencil_choice {

// Throw the FormatError for a matrix, or for new values, whose rows do not repeat as they should.
[[noreturn]] void refuse(const std::string& why, std::size_t csr_bytes);
[[noreturn]] void refuse_new_values();

}  // namespace stencil_choice

template <class T, class Passes>
struct Builder<Stencil<T>, Passes> {
    using Lanes = typename Passes::Lanes;
    using Kind = std::uint16_t;

    static constexpr std::int64_t kNanosecondsPerRow = 50;

    static StencilPlan plan_for(Passes& passes, const CsrMatrix<T>& csr, const StencilTuning& tuning,
                                const Target& target) {
        StencilPlan plan;
        plan.tuning = tuning;
        plan.kinds = passes.template make<Kind>(csr.rows);
        find_kinds(passes, csr, plan);
        place_stencils(passes, csr, plan);

        plan.cost.slots = plan.cost.entries = plan.cost.gathers = csr.nnz;
        plan.cost.bytes = plan.kinds.bytes() + plan.stencils.bytes() + plan.masks.bytes() + plan.examples.bytes() +
                          plan.slots * (sizeof(index_t) + sizeof(T));
        plan.col_end = find_col_end(passes, csr, plan);
        // Where neighbours have different stencils, lanes of a GPU read different slots.
        const Kind* const kinds = plan.kinds.data();
        const RowKind* const all = kinds_of(plan.stencils);
        plan.changes = passes.template reduce<std::int64_t>(
            csr.rows > 0 ? csr.rows - 1 : 0,
            [=] SPMVGPU_BODY(std::int64_t row) { return all[kinds[row]].owner != all[kinds[row + 1]].owner; });
        if (target.device.is_gpu()) plan.cost.launches = csr.rows > 0;
        if (tuning.rows_per_thread == 0) {
            plan.tuning.rows_per_thread = choose_rows_per_thread(csr.rows, plan.layer_rows, target.processors);
        }
        return plan;
    }

    static Stencil<T> from_csr(Passes& passes, const CsrMatrix<T>& csr, const StencilPlan& plan) {
        Stencil<T> stencil;
        stencil.rows = csr.rows;
        stencil.cols = csr.cols;
        stencil.nnz = csr.nnz;
        stencil.kinds = plan.kinds;
        stencil.stencils = plan.stencils;
        stencil.masks = plan.masks;
        stencil.layer_rows = plan.layer_rows;
        stencil.col_end = plan.col_end;
        stencil.examples = plan.examples;
        stencil.offsets = passes.template make<index_t>(plan.slots);
        stencil.values = passes.template make<T>(plan.slots);
        stencil.tuning = plan.tuning;
        const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        const index_t* const examples = plan.examples.data();
        index_t* const offsets = stencil.offsets.data();
        fill_slots(passes, stencil, offsets, [=] SPMVGPU_BODY(index_t kind, index_t i) {
            return cols[row_offsets[examples[kind]] + i] - examples[kind];
        });
        store_examples(passes, stencil, row_offsets, csr.values.data());
        return stencil;
    }

    // The map says where rows begin in CSR order.
    static Array<index_t> find_value_map(Passes& passes, const Stencil<T>& stencil) {
        const RowKind* const all = kinds_of(stencil.stencils);
        const Kind* const kinds = stencil.kinds.data();
        const Word* const masks = stencil.masks.data();
        return sum_row_lengths(passes, stencil.rows,
                               [=] SPMVGPU_BODY(index_t row) { return all[kinds[row]].entries(masks); });
    }

    // New values must be equal where the old ones were: in all rows of a kind, and in all kinds that share slots.
    static void store_values(Passes& passes, Stencil<T>& stencil, const index_t* row_offsets, const T* values) {
        const Kind* const kinds = stencil.kinds.data();
        const RowKind* const all = kinds_of(stencil.stencils);
        const Word* const masks = stencil.masks.data();
        const index_t* const examples = stencil.examples.data();
        Array<Mark> found = passes.template scratch<Mark>(1);
        Mark* const differ = found.data();
        passes.fill(differ, 1, Mark(0));
        each_row(passes, are_long(passes, stencil.rows, row_offsets), stencil.rows,
                 [=] SPMVGPU_BODY(const auto& lanes, std::int64_t row) {
                     const T *const own = values + row_offsets[row], *const same =
                                                                         values + row_offsets[examples[kinds[row]]];
                     lanes.share(row_offsets[row + 1] - row_offsets[row], [&](index_t i) {
                         if (!same_bits(own[i], same[i])) set_mark(differ);
                     });
                 });
        passes.each_in_step(
            stencil.kind_count(),
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t k) {
                const RowKind kind = all[k];
                const T* const own = values + row_offsets[examples[k]];
                const T* const same = values + row_offsets[examples[kind.owner]];
                lanes.share(kind.owner == k ? 0 : kind.entries(masks), [&](index_t i) {
                    if (!same_bits(own[i], same[kind.slot_of(masks, i)])) set_mark(differ);
                });
            },
            kNanosecondsPerRow);
        if (passes.read(differ) != 0) stencil_choice::refuse_new_values();
        store_examples(passes, stencil, row_offsets, values);
    }

    static index_t find_col_end(Passes& passes, const CsrMatrix<T>& csr, const StencilPlan& plan) {
        const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        const index_t* const examples = plan.examples.data();
        const Kind* const kinds = plan.kinds.data();
        return largest<index_t>(passes, csr.rows, [=] SPMVGPU_BODY(std::int64_t row) {
            const index_t like = examples[kinds[row]], end = row_offsets[like + 1];
            return end > row_offsets[like] ? static_cast<index_t>(row) + (cols[end - 1] - like) + 1 : 0;
        });
    }

    // Warps read the slots of several rows at a time, if there are rows enough to keep all processors busy: on an H200
    // two rows a thread are as fast as one with 80 to 100 thousand rows. Four take more registers, and are faster than
    // two from about twice as many on; of wide values that are not gathered in layers, from 0.5 to 1 million on.
    static int choose_rows_per_thread(index_t rows, index_t layer_rows, int processors) {
        constexpr std::int64_t kBusyThreads = 352;
        const bool are_wide = sizeof(T) >= sizeof(double) && layer_rows == 0;
        const std::int64_t busy = kBusyThreads * processors;
        if (rows >= (are_wide ? 16 : 4) * busy) return 4;
        return rows >= 2 * busy ? 2 : 1;
    }

    static bool are_long(Passes& passes, index_t rows, const index_t* row_offsets) {
        constexpr index_t kLong = 64;
        return longest_row(passes, rows, row_offsets) > kLong;
    }

    // Calls body(lanes, i) for every i below n, which looks at a row, with several lanes if rows are long.
    template <class Body>
    static void each_row(Passes& passes, bool are_long, index_t n, Body body) {
        if (are_long) return passes.each_in_step(n, body, kNanosecondsPerRow);
        passes.each(
            n, [=] SPMVGPU_BODY(std::int64_t i) { body(OneLane{}, i); }, kNanosecondsPerRow);
    }

    // Samples of rows give the kinds. Rows of other kinds are then sampled from among themselves, until there are none.
    static void find_kinds(Passes& passes, const CsrMatrix<T>& csr, StencilPlan& plan) {
        const RelativeRows<T> rows(csr);
        const bool rows_are_long = are_long(passes, csr.rows, csr.row_offsets.data());
        Kind* const kinds = plan.kinds.data();
        Array<Mark> marks = passes.template scratch<Mark>(2);
        Mark *const is_unknown = marks.data(), *const differs = is_unknown + 1;
        passes.fill(is_unknown, 2, Mark(0));
        std::vector<KnownRow> known;
        Array<index_t> unknown;
        KnownRows table{};
        for (index_t count = csr.rows; count > 0; count = static_cast<index_t>(unknown.size())) {
            const index_t* const list = unknown.size() > 0 ? unknown.data() : nullptr;  // null: all rows
            learn(passes, csr, list, count, plan.tuning, known, table);
            const Array<KnownRow> placed = write(passes, known);
            table.all = placed.data();
            table.count = static_cast<std::int64_t>(known.size());
            const KnownRows there = table;
            each_row(passes, rows_are_long, count, [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i) {
                const index_t row = list == nullptr ? static_cast<index_t>(i) : list[i];
                const Kind kind = there.kind_of(lanes, rows, row, differs);
                lanes.once([&] {
                    kinds[row] = kind;
                    if (kind == KnownRows::kUnknown) set_mark(is_unknown);
                });
            });
            const std::vector<Mark> found = passes.read_all(marks);
            if (found[1] != 0) stencil_choice::refuse("has different rows with one key", csr.bytes());
            if (found[0] == 0) break;
            passes.fill(is_unknown, 1, Mark(0));
            unknown = select(passes, csr.rows,
                             [=] SPMVGPU_BODY(std::int64_t row) { return kinds[row] == KnownRows::kUnknown; });
        }
        number_by_first_rows(passes, csr.rows, static_cast<index_t>(known.size()), plan);
    }

    // Adds the kinds in a sample of the rows in a list (null: of all), and refuses the matrix if there are too many.
    static void learn(Passes& passes, const CsrMatrix<T>& csr, const index_t* list, index_t count,
                      const StencilTuning& tuning, std::vector<KnownRow>& known, KnownRows& table) {
        const RelativeRows<T> rows(csr);
        const auto most = static_cast<std::int64_t>(tuning.max_stencils);
        const std::int64_t all = count, size = all < 2 * most + 2 ? all : 2 * most + 2;
        Array<KnownRow> sample = passes.template scratch<KnownRow>(size);
        KnownRow* const to = sample.data();
        passes.each_in_step(
            size,
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t i) {
                const std::int64_t place = sample_place(all, size, i);
                const index_t row = list == nullptr ? static_cast<index_t>(place) : list[place];
                const std::uint64_t key = rows.key(lanes, row);
                lanes.once([&] { to[i] = {key, row, KnownRows::kUnknown}; });
            },
            kNanosecondsPerRow);
        learn_from(passes.read_all(sample), known, table);
        if (static_cast<std::int64_t>(known.size()) <= most) return;
        stencil_choice::refuse("has more than max_stencils=" + std::to_string(most) + " different rows", csr.bytes());
    }

    // Numbers the kinds by their first rows, so that the numbers do not depend on the keys.
    static void number_by_first_rows(Passes& passes, index_t rows, index_t count, StencilPlan& plan) {
        Kind* const kinds = plan.kinds.data();
        Array<index_t> first_rows = passes.template scratch<index_t>(count);
        index_t* const first = first_rows.data();
        passes.fill(first, count, rows);
        passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) {
            if (row == 0 || kinds[row - 1] != kinds[row]) lower(first + kinds[row], static_cast<index_t>(row));
        });
        const std::vector<index_t> unordered = passes.read_all(first_rows);
        std::vector<index_t> examples = unordered, numbers(count);
        std::sort(examples.begin(), examples.end());
        for (index_t kind = 0; kind < count; ++kind) {
            const auto place = std::lower_bound(examples.begin(), examples.end(), unordered[kind]);
            numbers[kind] = static_cast<index_t>(place - examples.begin());
        }
        plan.examples = passes.keep(write(passes, examples));
        const Array<index_t> placed = write(passes, numbers);
        const index_t* const number = placed.data();
        passes.each(rows, [=] SPMVGPU_BODY(std::int64_t row) { kinds[row] = static_cast<Kind>(number[kinds[row]]); });
    }

    static const RowKind* kinds_of(const Array<index_t>& stencils) {
        static_assert(sizeof(RowKind) == 4 * sizeof(index_t));
        return reinterpret_cast<const RowKind*>(stencils.data());
    }

    template <class Number>
    static Array<Number> write(Passes& passes, const std::vector<Number>& numbers) {
        Array<Number> there = passes.template scratch<Number>(numbers.size());
        passes.write_all(there, numbers.data());
        return there;
    }

    static void place_stencils(Passes& passes, const CsrMatrix<T>& csr, StencilPlan& plan) {
        const auto count = static_cast<std::int64_t>(plan.examples.size());
        const index_t *const row_offsets = csr.row_offsets.data(), *const examples = plan.examples.data();
        Array<index_t> lengths_there = passes.template scratch<index_t>(count);
        index_t* const to = lengths_there.data();
        passes.each(count, [=] SPMVGPU_BODY(std::int64_t kind) {
            to[kind] = row_offsets[examples[kind] + 1] - row_offsets[examples[kind]];
        });
        const std::vector<index_t> lengths = passes.read_all(lengths_there);
        const auto patterns = read_patterns(passes, csr, plan, lengths);
        auto [kinds, masks, layer_rows] = share_slots(lengths, patterns, csr.rows);
        plan.layer_rows = layer_rows;
        constexpr std::int64_t kTogether = Stencil<T>::kTogether;
        std::int64_t slots = 0;
        for (index_t kind = 0; kind < count; ++kind) {
            if (kinds[kind].owner != kind) continue;
            kinds[kind].begin = static_cast<index_t>(slots);
            slots += (lengths[kind] + kTogether - 1) / kTogether * kTogether;
            if (slots > std::numeric_limits<index_t>::max()) {
                stencil_choice::refuse("has more slots than 32-bit positions can count", csr.bytes());
            }
        }
        std::vector<index_t> stencils;
        for (RowKind& kind : kinds) {
            kind.begin = kinds[kind.owner].begin;
            stencils.insert(stencils.end(), {kind.begin, kind.length, kind.masks, kind.third << 16 | kind.owner});
        }
        plan.stencils = passes.keep(write(passes, stencils));
        plan.masks = passes.keep(write(passes, masks));
        plan.slots = static_cast<index_t>(slots);
    }

    // The examples of all kinds that may share slots, and empty patterns for the others.
    static std::vector<StencilRow<T>> read_patterns(Passes& passes, const CsrMatrix<T>& csr, const StencilPlan& plan,
                                                    const std::vector<index_t>& lengths) {
        const auto count = static_cast<std::int64_t>(lengths.size());
        const index_t *const row_offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
        const index_t* const examples = plan.examples.data();
        const T* const values = csr.values.data();
        index_t most = 0;
        for (const index_t length : lengths) {
            if (length <= kLongestShared) most = std::max(most, length);
        }
        Array<index_t> offsets_there = passes.template scratch<index_t>(count * most);
        Array<T> values_there = passes.template scratch<T>(count * most);
        index_t* const to_offsets = offsets_there.data();
        T* const to_values = values_there.data();
        passes.each(count * most, [=] SPMVGPU_BODY(std::int64_t place) {
            const index_t example = examples[place / most];
            const std::int64_t k = row_offsets[example] + place % most;
            const bool is_there = k < row_offsets[example + 1];
            to_offsets[place] = is_there ? cols[k] - example : 0;
            to_values[place] = is_there ? values[k] : T(0);
        });
        const std::vector<index_t> offsets = passes.read_all(offsets_there);
        const std::vector<T> numbers = passes.read_all(values_there);
        std::vector<StencilRow<T>> patterns(count);
        for (std::int64_t kind = 0; kind < count; ++kind) {
            if (lengths[kind] > most) continue;
            const std::int64_t begin = kind * most, end = begin + lengths[kind];
            patterns[kind] = {{offsets.begin() + begin, offsets.begin() + end},
                              {numbers.begin() + begin, numbers.begin() + end}};
        }
        return patterns;
    }

    // Sets to[slot] to entry(kind, i) for slot i of a kind that has all slots, and to 0 where that is padding.
    template <class Number, class Entry>
    static void fill_slots(Passes& passes, const Stencil<T>& stencil, Number* to, Entry entry) {
        const RowKind* const all = kinds_of(stencil.stencils);
        passes.each_in_step(
            stencil.kind_count(),
            [=] SPMVGPU_BODY(const Lanes& lanes, std::int64_t k) {
                const auto kind = static_cast<index_t>(k);
                const RowKind own = all[kind];
                const index_t padding = -own.length & (Stencil<T>::kTogether - 1);
                lanes.share(own.owner == kind ? own.length + padding : 0,
                            [&](index_t i) { to[own.begin + i] = i < own.length ? entry(kind, i) : Number(0); });
            },
            kNanosecondsPerRow);
    }

    static void store_examples(Passes& passes, Stencil<T>& stencil, const index_t* row_offsets, const T* values) {
        const index_t* const examples = stencil.examples.data();
        fill_slots(passes, stencil, stencil.values.data(),
                   [=] SPMVGPU_BODY(index_t kind, index_t i) { return values[row_offsets[examples[kind]] + i]; });
        const T* const stored = stencil.values.data();
        const auto others = passes.template reduce<std::int64_t>(
            stencil.values.size(), [=] SPMVGPU_BODY(std::int64_t slot) { return !is_finite(stored[slot]); });
        stencil.is_finite = others == 0;
    }
};

}  // namespace spmvgpu
