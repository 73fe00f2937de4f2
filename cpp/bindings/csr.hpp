// CSR matrices as Python gives and gets them.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <tuple>
#include <utility>

#include "bindings/gil.hpp"
#include "bindings/value_types.hpp"
#include "core/csr_matrix.hpp"

namespace spmvgpu {

template <class T>
using Dense = pybind11::array_t<T, pybind11::array::c_style>;

// A window on an array, which outlives it.
template <class T>
Array<T> view_of(const Dense<T>& array) {
    return Array<T>::view(array.data(), array.size());
}

// A window on canonical CSR arrays, which outlive it. Checked only for what would corrupt memory; Python checks the
// rest.
template <class T>
CsrMatrix<T> csr_view(const Dense<index_t>& indptr, const Dense<index_t>& indices, const Dense<T>& data, index_t cols) {
    if (indptr.size() < 1 || indices.size() != data.size() || indptr.data()[indptr.size() - 1] != data.size()) {
        throw std::invalid_argument("inconsistent CSR arrays");
    }
    return {static_cast<index_t>(indptr.size() - 1),
            cols,
            static_cast<index_t>(data.size()),
            view_of(indptr),
            view_of(indices),
            view_of(data)};
}

// The name of the capsules that keep the memory of arrays from hand_over().
inline constexpr char kHandedOver[] = "spmvgpu.memory";

// A NumPy array that has an array in host memory as its memory.
template <class T>
pybind11::array_t<T> hand_over(Array<T> array) {
    const auto size = static_cast<pybind11::ssize_t>(array.size());
    auto owner = std::make_unique<std::shared_ptr<void>>(array.memory());
    const pybind11::capsule base(owner.release(), kHandedOver,
                                 [](void* kept) { delete static_cast<std::shared_ptr<void>*>(kept); });
    return pybind11::array_t<T>(size, array.data(), base);
}

// The result of a function that need not hold the GIL, as a NumPy array.
template <class Find>
pybind11::array_t<index_t> listed(const Find& find) {
    Array<index_t> found = [&] {
        const GilRelease release;
        return find();
    }();
    return hand_over(std::move(found));
}

// Returns the memory of an array from hand_over(), or of a window on one, as an array that keeps it alive without the
// NumPy array. Its last owner then needs no interpreter lock, which a thread cannot get at its exit. Any other NumPy
// array gives only a window.
template <class T>
Array<T> share_array(const Dense<T>& array) {
    pybind11::object base = array.base();
    while (base && pybind11::isinstance<pybind11::array>(base)) {
        base = pybind11::reinterpret_borrow<pybind11::array>(base).base();
    }
    if (!base || PyCapsule_IsValid(base.ptr(), kHandedOver) == 0) return view_of(array);
    const auto& memory = *static_cast<std::shared_ptr<void>*>(PyCapsule_GetPointer(base.ptr(), kHandedOver));
    return Array<T>::share({memory, const_cast<T*>(array.data())}, array.size());
}

// Like csr_view, but the matrix shares index arrays from hand_over().
template <class T>
CsrMatrix<T> csr_share(const Dense<index_t>& indptr, const Dense<index_t>& indices, const Dense<T>& data,
                       index_t cols) {
    CsrMatrix<T> csr = csr_view<T>(indptr, indices, data, cols);
    csr.row_offsets = share_array(indptr);
    csr.col_indices = share_array(indices);
    return csr;
}

// A NumPy array of its own with the contents of an array on any device.
template <class T>
auto to_numpy(const Array<T>& array) {
    if constexpr (std::is_arithmetic_v<Real<T>>) {
        pybind11::array_t<T> copy(array.size());
        T* const to = copy.mutable_data();
        const GilRelease release;
        copy_bytes(to, {}, array.data(), array.device(), array.bytes());
        return copy;
    } else {  // a plan of index_t records, one row each
        constexpr pybind11::ssize_t kFields = sizeof(T) / sizeof(index_t);
        pybind11::array_t<index_t> copy({static_cast<pybind11::ssize_t>(array.size()), kFields});
        copy_bytes(copy.mutable_data(), {}, array.data(), array.device(), array.bytes());
        return copy;
    }
}

using CsrArrays = std::tuple<pybind11::array, pybind11::array_t<index_t>, pybind11::array_t<index_t>>;

template <class M>
CsrArrays to_csr_arrays(const M& matrix) {
    const auto csr = [&] {
        const GilRelease release;
        return matrix.to_csr();
    }();
    return {to_numpy(csr.values), to_numpy(csr.col_indices), to_numpy(csr.row_offsets)};
}

}  // namespace spmvgpu
