// How new values come into tsmv; see builder.hpp. It is planned and built on the host.
#pragma once

#include "formats/builder.hpp"
#include "formats/symmetry.hpp"
#include "formats/tsmv.hpp"

namespace spmvgpu {

// Where the values of tsmv come from: for each place in `values`, and then in the remainder, the position in CSR order
// of the value that it takes, and then for each the position of that value's mirror image. In host memory.
namespace tsmv_sources {

constexpr index_t kPadding = -1;

// What stands for the mirror image of a value, in place of the value's position; and that position.
constexpr index_t mirror_of(index_t k) { return -2 - k; }
constexpr bool is_mirror(index_t source) { return source < kPadding; }
constexpr index_t position_of(index_t source) { return is_mirror(source) ? -2 - source : source; }

template <class T>
Array<index_t> find(const Tsmv<T>& tsmv);

}  // namespace tsmv_sources

template <class T, class Passes>
struct Builder<Tsmv<T>, Passes> {
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
        passes.each_entry(
            places.steps, places.step_offsets, places.slots, SPMVGPU_BODY(index_t step, index_t slot) {
                for (int i = 0; i < places.of_slot; ++i) {
                    const std::int64_t place = places.in_values(step, slot, i);
                    to[place] = map[place] == tsmv_sources::kPadding ? T(0) : values[map[place]];
                }
            });
        passes.each(
            tsmv.remainder.nnz, SPMVGPU_BODY(std::int64_t k) {
                const index_t source = map[places.count + k];
                const T value = values[tsmv_sources::position_of(source)];
                to_remainder[k] = tsmv_sources::is_mirror(source) && hermitian ? mirror(value) : value;
            });
    }

    // The places of `values`, slot by slot: those of one take values that lie side by side.
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

    // Half of the values stands for the others, so these must be as the plan found the first ones to be.
    static void check_symmetry(Passes& passes, const Tsmv<T>& tsmv, const Places& places, const index_t* map,
                               const T* values) {
        const bool hermitian = tsmv.tuning.symmetry == Symmetry::kHermitian;
        const std::int64_t all_places = places.count + tsmv.remainder.nnz;
        const index_t* const mirrors = map + all_places;
        Array<Mark> found = passes.template scratch<Mark>(1);
        Mark* const is_found = found.data();
        passes.fill(is_found, 1, Mark(0));
        passes.each_entry(
            places.steps, places.step_offsets, places.slots, SPMVGPU_BODY(index_t step, index_t slot) {
                for (int i = 0; i < places.of_slot; ++i) {
                    const std::int64_t place = places.in_values(step, slot, i);
                    if (!is_mirrored(map[place], mirrors[place], values, hermitian)) set_mark(is_found);
                }
            });
        passes.each(
            tsmv.remainder.nnz, SPMVGPU_BODY(std::int64_t k) {
                const std::int64_t place = places.count + k;
                if (!is_mirrored(map[place], mirrors[place], values, hermitian)) set_mark(is_found);
            });
        if (passes.read(is_found) == 0) return;
        const auto from_end = largest<std::int64_t>(
            passes, all_places, SPMVGPU_BODY(std::int64_t i) {
                return is_mirrored(map[i], mirrors[i], values, hermitian) ? std::int64_t(0) : all_places - i;
            });
        const index_t k = tsmv_sources::position_of(passes.read(map + all_places - from_end));
        const index_t mirrored = passes.read(mirrors + all_places - from_end);
        refuse_new_values(Tsmv<T>::kName, k, mirrored, hermitian);
    }
};

}  // namespace spmvgpu
