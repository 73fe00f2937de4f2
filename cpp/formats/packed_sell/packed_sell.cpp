#include <algorithm>
#include <bit>
#include <numeric>

#include "core/parallel.hpp"
#include "formats/packed_sell/layout.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

using namespace packed;

namespace {

// A slot of a slice: its columns unpacked, its values as stored.
template <class T>
struct UnpackedSlot {
    std::int32_t base;
    std::uint32_t mask;  // the lanes with an entry
    bool has_offsets;
    std::uint32_t offsets[kLanes];  // zeros where it has none
    ValueMode mode;
    const Byte* values;  // one for every lane, or one in kConstant
};

template <IndexMode kMode, class T>
inline void read_offsets(const Byte* from, UnpackedSlot<T>& slot) {
    std::uint32_t missing = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        const std::uint32_t offset = load_element<Offset<kMode>>(from + lane * index_bytes(kMode));
        slot.offsets[lane] = offset;
        missing |= std::uint32_t(offset == kNoEntry<kMode>) << lane;
    }
    slot.mask = ~missing;
}

template <class T>
inline void read_offsets(IndexMode mode, const Byte* from, UnpackedSlot<T>& slot) {
    switch (mode) {
        case IndexMode::k8:
            return read_offsets<IndexMode::k8>(from, slot);
        case IndexMode::k16:
            return read_offsets<IndexMode::k16>(from, slot);
        default:
            return read_offsets<IndexMode::k32>(from, slot);
    }
}

template <class T, class Visit>
inline void for_each_stored_slot(const PackedSell<T>& matrix, index_t slice, const Visit& visit) {
    const std::uint64_t* const words = matrix.heads.data() + std::int64_t(slice) * kHeadWords;
    Head head = head_of({words[0], words[1]});
    const Byte* const start = matrix.stream.data() + head.position * kGranule;
    const Byte* group = start;
    UnpackedSlot<T> slot;
    while (true) {
        const Sections at = sections_of<T>(head);
        const Byte *bases = group + at.bases, *constants = group + at.constants;
        const Byte *indices = group + at.indices, *values = group + at.values;
        for (int s = 0; s < head.slots; ++s) {
            slot.base = load_element<std::int32_t>(bases + 4 * s);
            slot.has_offsets = head.index >= IndexMode::k8 && (head.shared >> s & 1) == 0;
            if (slot.has_offsets) {
                read_offsets(head.index, indices, slot);
                indices += index_bytes(head.index) * kLanes;
            } else {
                std::fill_n(slot.offsets, kLanes, 0);
                slot.mask = head.index == IndexMode::kMasks ? load_element<std::uint32_t>(indices + 4 * s) : kEveryLane;
            }
            if ((head.constant >> s & 1) != 0) {
                slot.mode = ValueMode::kConstant;
                slot.values = constants;
                constants += sizeof(T);
            } else {
                slot.mode = head.value;
                slot.values = values;
                values += value_bytes<T>(head.value) * kLanes;
            }
            visit(slot);
        }
        if (!head.more) return;
        head = head_of(load_element<HeadWords>(group));
        group = start + head.position * kGranule;
    }
}

// The values of a slot, one per lane: in place, or in the buffer.
template <class T>
inline const T* values_of(const PackedSell<T>& matrix, const UnpackedSlot<T>& slot, T* buffer) {
    switch (slot.mode) {
        case ValueMode::kConstant:
            std::fill_n(buffer, kLanes, load_element<T>(slot.values));
            break;
        case ValueMode::kFull:
            return reinterpret_cast<const T*>(slot.values);
        case ValueMode::kDictionary:
            for (int lane = 0; lane < kLanes; ++lane) buffer[lane] = matrix.dictionary[slot.values[lane]];
            break;
    }
    return buffer;
}

template <class Visit>
inline void for_each_run(std::uint32_t mask, const Visit& visit) {
    for (int lane = 0; mask != 0;) {
        const int gap = std::countr_zero(mask), length = std::countr_one(mask >> gap);
        visit(lane + gap, length);
        lane += gap + length;
        mask = lane < kLanes ? mask >> gap >> length : 0;
    }
}

// The sums of the rows of a slice. The function is static because one with clones cannot be merged between object
// files.
template <class T>
SPMVGPU_SIMD_CLONES static void sum_packed_slice(const PackedSell<T>& matrix, index_t slice, const T* x, T* sums) {
    const index_t first = slice * kLanes, lanes = slice_end(slice, matrix.rows) - first;
    const bool in_order = matrix.permutation.size() == 0;
    index_t rows[kLanes] = {};
    for (index_t lane = 0; lane < lanes; ++lane) rows[lane] = matrix.row_at(first + lane);
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] = T(0);
    T buffer[kLanes];
    for_each_stored_slot(matrix, slice, [&](const UnpackedSlot<T>& slot) {
        const T* const values = values_of(matrix, slot, buffer);
        const bool side_by_side = in_order && !slot.has_offsets;
        for_each_run(slot.mask, [&](int lane, int length) {
            const T* const run_values = values + lane;
            T* const run = sums + lane;
            if (side_by_side) {
                const T* const from = x + column_of(slot.base, first + lane, 0);
#pragma omp simd
                for (int j = 0; j < length; ++j) run[j] += run_values[j] * from[j];
            } else {
#pragma omp simd
                for (int j = 0; j < length; ++j) {
                    run[j] += run_values[j] * x[column_of(slot.base, rows[lane + j], slot.offsets[lane + j])];
                }
            }
        });
    });
}

}  // namespace

template <class T>
CsrMatrix<T> PackedSell<T>::to_csr() const {
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    csr.row_offsets[0] = 0;
    const std::int64_t nanoseconds = std::int64_t(rows) + nnz;
    parallel_for(slices, nanoseconds, [&](index_t s) {
        const index_t first = s * kLanes, lanes = slice_end(s, rows) - first;
        index_t lengths[kLanes] = {};
        for_each_stored_slot(*this, s, [&](const UnpackedSlot<T>& slot) {
            for (index_t lane = 0; lane < lanes; ++lane) lengths[lane] += slot.mask >> lane & 1;
        });
        for (index_t lane = 0; lane < lanes; ++lane) csr.row_offsets[row_at(first + lane) + 1] = lengths[lane];
    });
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());
    parallel_for(slices, nanoseconds, [&](index_t s) {
        const index_t first = s * kLanes, lanes = slice_end(s, rows) - first;
        index_t next[kLanes] = {};
        for (index_t lane = 0; lane < lanes; ++lane) next[lane] = csr.row_offsets[row_at(first + lane)];
        T buffer[kLanes];
        for_each_stored_slot(*this, s, [&](const UnpackedSlot<T>& slot) {
            const T* const values = values_of(*this, slot, buffer);
            for (std::uint32_t left = slot.mask; left != 0; left &= left - 1) {
                const int lane = std::countr_zero(left);
                const index_t k = next[lane]++;
                csr.col_indices[k] = column_of(slot.base, row_at(first + lane), slot.offsets[lane]);
                csr.values[k] = values[lane];
            }
        });
    });
    return csr;
}

template <class T>
void PackedSell<T>::spmv(const Product<T>& product) const {
    parallel_for(slices, std::int64_t(rows) + nnz, [&](index_t s) {
        T sums[kLanes];
        sum_packed_slice(*this, s, product.x, sums);
        for (index_t i = s * kLanes; i < slice_end(s, rows); ++i) store_row(product, row_at(i), sums[i % kLanes]);
    });
}

#define INSTANTIATE(T)                                   \
    template CsrMatrix<T> PackedSell<T>::to_csr() const; \
    template void PackedSell<T>::spmv(const Product<T>&) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
