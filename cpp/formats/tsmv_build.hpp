// How new values come into tsmv; see builder.hpp. It is planned and built on the host.
#pragma once

#include <string>

#include "core/errors.hpp"
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
        const auto places = static_cast<std::int64_t>(tsmv.values.size());
        const std::int64_t all_places = places + tsmv.remainder.nnz;
        check_symmetry(passes, tsmv, map, all_places, values);
        const Mirror<T> mirror = tsmv.mirror();
        T *const to = tsmv.values.data(), *const to_remainder = tsmv.remainder.values.data();
        passes.each(
            all_places, SPMVGPU_BODY(std::int64_t i) {
                const index_t source = map[i];
                T value = 0;
                if (source != tsmv_sources::kPadding) value = values[tsmv_sources::position_of(source)];
                if (tsmv_sources::is_mirror(source)) value = mirror(value);
                (i < places ? to[i] : to_remainder[i - places]) = value;
            });
    }

    // Half of the values stands for the others, so these must be as the plan found the first ones to be.
    static void check_symmetry(Passes& passes, const Tsmv<T>& tsmv, const index_t* map, std::int64_t places,
                               const T* values) {
        const bool hermitian = tsmv.tuning.symmetry == Symmetry::kHermitian;
        const index_t* const mirrors = map + places;
        const auto from_end = largest<std::int64_t>(
            passes, places, SPMVGPU_BODY(std::int64_t i) {
                if (map[i] == tsmv_sources::kPadding) return std::int64_t(0);
                const T value = values[tsmv_sources::position_of(map[i])];
                return are_mirrored(value, values[mirrors[i]], hermitian) ? std::int64_t(0) : places - i;
            });
        if (from_end == 0) return;
        const index_t k = tsmv_sources::position_of(passes.read(map + places - from_end));
        const index_t mirrored = passes.read(mirrors + places - from_end);
        const std::string kind = hermitian ? "Hermitian" : "symmetric";
        throw FormatError("format 'tsmv' holds half of a " + kind + " matrix, and with the new values it is not " +
                          kind + ": those at " + std::to_string(k) + " and " + std::to_string(mirrored) +
                          (k == mirrored ? " belong to the diagonal and are not real"
                           : hermitian   ? " are not each other's conjugates"
                                         : " are not the same") +
                          "; format 'csr' takes any values");
    }
};

}  // namespace spmvgpu
